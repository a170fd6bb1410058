// What a method refuses of stream and settings, or warns of, is a line of asr doctor and said by asr run before a model
// is loaded: the zero-shot evaluation alone takes hours at the paper's scale.
#include <algorithm>
#include <filesystem>

#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

class RefusedPlans : public ::testing::Test {
 protected:
  void SetUp() override { write_small_model(folder / "model"); }

  // Of a run on three tasks of the world.
  std::string world_config(const std::string& method) {
    std::string yaml;
    for (const auto& a : small_run(folder / "model", folder / "run", method)) yaml += a.key + ": " + a.value + "\n";
    write_text(folder / "c.yaml", yaml);
    return folder / "c.yaml";
  }

  // Of a run on a folder with these tasks, each with the object category of its rows; empty: none.
  std::string own_config(const std::vector<std::pair<std::string, std::string>>& categories,
                         const std::string& method) {
    auto tasks = nlohmann::json::array();
    for (const auto& [task, category] : categories) {
      std::string rows;
      for (int i = 0; i < 4; ++i) {
        const auto picture = cat(i, ".png");
        write_grey_picture(folder / picture, 50 * i);
        nlohmann::json row = {{"id", i}, {"image", picture}, {"question", "is it?"}, {"answer", "yes"}};
        if (!category.empty()) row["category"] = category;
        rows += row.dump() + "\n";
      }
      for (const std::string split : {".train.jsonl", ".val.jsonl"}) write_text(folder / (task + split), rows);
      tasks.push_back({{"name", task}, {"files", {{"train", task + ".train.jsonl"}, {"val", task + ".val.jsonl"}}}});
    }
    write_text(folder / "stream.json", nlohmann::json{{"tasks", tasks}}.dump());
    write_text(folder / "own.yaml", "model_name_or_path: " + (folder / "model") + "\noutput_dir: " + (folder / "run") +
                                        "\nstream:\n  name: manifest\n  path: " + folder.path() +
                                        "\nmethod: " + method + "\nattention.layers: 2\nanalysis.overlays: 0\n");
    return folder / "own.yaml";
  }

  // The lines that asr doctor has of a method, as "VERDICT detail".
  static std::vector<std::string> said_of(const std::string& method, const Outcome& doctor) {
    std::vector<std::string> out;
    const auto all = doctor.json();
    for (const auto& line : all["checks"])
      if (line["check"].get<std::string>() == "method " + method)
        out.push_back(line["verdict"].get<std::string>() + " " + line["detail"].get<std::string>());
    return out;
  }

  TemporaryFolder folder;
};

TEST_F(RefusedPlans, AreSaidBeforeAModelIsLoaded) {
  struct Case {
    std::string method, set, part;
  };
  for (const auto& c : {Case{"lwf", "projector=full", "lwf's teacher is an adapter alone"},
                        Case{"quad", "projector=full", "quad's teacher is an adapter alone"},
                        Case{"sefe", "head=answers", "set head=generate or sefe.styles=0"},
                        Case{"bcp-mfa+sefe", "head=generate", "set head=generate or sefe.styles=0"}}) {
    const auto config = world_config(c.method);
    const std::vector<std::string> settings = {config, "--set", c.set, "--set", "sefe.styles=0.5"};
    auto doctor = settings, run = settings;
    doctor.insert(doctor.begin(), {"doctor", "--json", "--images", "0"});
    const auto examined = run_program(doctor);
    EXPECT_EQ(examined.status, 2) << c.method;
    const auto lines = said_of(c.method, examined);
    ASSERT_EQ(lines.size(), 1u) << examined.out;
    EXPECT_CONTAINS(lines[0], "FAILS");
    EXPECT_CONTAINS(lines[0], c.part);
    run.insert(run.begin(), "run");
    run.insert(run.end(), {"--set", "model_name_or_path=" + (folder / "no-model")});
    expect_refused(run, c.part);
    EXPECT_FALSE(std::filesystem::exists(folder / "run")) << c.method;
  }
}

// Other methods of the same command would have been trained first.
TEST_F(RefusedPlans, StopAllRunsOfACommand) {
  expect_refused({"run", world_config("[vanilla, lwf]"), "--set", "projector=full"},
                 "lwf's teacher is an adapter alone");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

// How many layers there are, the model's files say to asr doctor, and the model to a run, which leaves no folder.
TEST_F(RefusedPlans, ALayerThatTheModelDoesNotHave) {
  const auto config = world_config("adapt-inf");
  const std::string part = "adapt-inf.layer: 3 is no layer of the language model, which has 2";
  const auto examined = run_program({"doctor", config, "--set", "adapt-inf.layer=3", "--json", "--images", "0"});
  EXPECT_EQ(examined.status, 2);
  EXPECT_EQ(said_of("adapt-inf", examined), std::vector<std::string>{"FAILS " + part});
  expect_refused({"run", config, "--set", "adapt-inf.layer=3"}, part);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  EXPECT_EQ(run_program({"doctor", config, "--set", "adapt-inf.layer=2", "--images", "0"}).status, 0);
}

// VQACL runs without categories, on one object prototype: a line, and one alone.
TEST_F(RefusedPlans, MissingCategoriesAreAWarning) {
  const std::string all = "vqacl: no sample of a, b names an object category";
  const auto config = own_config({{"a", ""}, {"b", ""}}, "vqacl");
  const auto examined = run_program({"doctor", config, "--json"});
  EXPECT_EQ(examined.status, 0) << examined.out;
  const auto lines = said_of("vqacl", examined);
  ASSERT_EQ(lines.size(), 1u) << examined.out;
  EXPECT_CONTAINS(lines[0], "WARNING " + all);
  const auto run = run_program({"run", config});
  EXPECT_EQ(run.status, 0) << run.error;
  EXPECT_CONTAINS(run.error, all);
  EXPECT_EQ(run.error.find("object category"), run.error.rfind("object category")) << run.error;

  const auto part = own_config({{"a", "cat"}, {"b", ""}}, "vqacl");
  const auto half = said_of("vqacl", run_program({"doctor", part, "--json"}));
  ASSERT_EQ(half.size(), 1u);
  EXPECT_CONTAINS(half[0], "vqacl: no sample of b names");
  const auto known = own_config({{"a", "cat"}, {"b", "dog"}}, "[vqacl, er]");
  EXPECT_TRUE(said_of("vqacl", run_program({"doctor", known, "--json"})).empty());
  EXPECT_TRUE(said_of("er", run_program({"doctor", own_config({{"a", ""}}, "er"), "--json"})).empty());
}

// Settings are chosen on a split of their own, which rows prepared elsewhere may not have.
TEST_F(RefusedPlans, ASearchNeedsATuneSplit) {
  const auto config = own_config({{"a", ""}, {"b", ""}}, "vanilla");
  const std::string line = "has no samples of task 'a' in the split tune";
  expect_refused({"admit", config}, line);
  expect_refused({"tune", config, "--protocol", std::string(ASR_SOURCE_DIR) + "/configs/protocol_small.yaml"}, line);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace asr
