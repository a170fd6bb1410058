// What a run leaves behind for people: tables and report at its end, a command that repeats it, scores on novel
// compositions, and task names of every kind.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "metrics/metric.h"
#include "streams/world/world.h"
#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

class RunSummary : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    models = std::make_unique<TemporaryFolder>();
    write_small_model(*models / "model");
  }
  static void TearDownTestSuite() { models.reset(); }
  void write_config(const std::string& out, const std::string& method, const std::string& stream) {
    std::string yaml;
    for (const auto& a : small_run(*models / "model", out, method))
      if (stream.empty() || a.key.compare(0, 7, "stream.") != 0) yaml += a.key + ": " + a.value + "\n";
    write_text(folder / "c.yaml", yaml + stream);
  }
  // The lines of the page's first block of commands, as a shell would read them.
  static std::vector<std::vector<std::string>> commands(const std::string& page) {
    const size_t from = page.find("<pre><code>", page.find("To reproduce")) + 11;
    std::istringstream lines(page.substr(from, page.find("</code>", from) - from));
    std::vector<std::vector<std::string>> out;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      out.emplace_back();
      for (std::string word; words >> word;) out.back().push_back(word);
    }
    return out;
  }
  static std::unique_ptr<TemporaryFolder> models;
  TemporaryFolder folder;
};
std::unique_ptr<TemporaryFolder> RunSummary::models;

TEST_F(RunSummary, TablesAndReportAreWrittenAndTheReportsCommandsWork) {
  const auto out = folder / "out";
  write_config(out, "vanilla", "");
  const auto run = run_program({"run", folder / "c.yaml"});
  ASSERT_EQ(run.status, 0) << run.error;
  EXPECT_CONTAINS(run.out, "compare.md");
  EXPECT_CONTAINS(read_text(out + "/compare.md"), "| vanilla | 1 |");
  EXPECT_CONTAINS(read_text(out + "/compare.csv"), ",vanilla,1,AP,1,");
  // A second call adds to the folder; both have their command.
  ASSERT_EQ(run_program({"run", folder / "c.yaml", "--set", "method=ewc"}).status, 0);
  EXPECT_CONTAINS(read_text(out + "/compare.md"), "| ewc | 1 |");
  const auto list = commands(read_text(out + "/report.html"));
  ASSERT_EQ(list.size(), 3u);
  for (auto words : list) {
    ASSERT_EQ(words.at(0), "asr");
    words.erase(words.begin());
    const auto outcome = run_program(words);
    EXPECT_EQ(outcome.status, 0) << outcome.error;
  }
  for (const char* label : {"vanilla", "ewc"})
    EXPECT_EQ(read_text(out + "-again/" + label + "/matrix.csv"), read_text(out + "/" + label + "/matrix.csv"));
}

TEST_F(RunSummary, NovelCompositionsOfTheWorld) {
  const auto out = folder / "out";
  write_config(out, "vanilla", "");
  const auto run = run_program({"run", folder / "c.yaml", "--json", "--set", "stream.name=world-sc"});
  ASSERT_EQ(run.status, 0) << run.error;
  const auto scores = run.json()["runs"][0]["metrics"]["scores"];
  const auto matrix = run_program({"matrix", out + "/vanilla/matrix_novel.csv", "--json"});
  ASSERT_EQ(matrix.status, 0) << matrix.error;
  EXPECT_NEAR(matrix.json()["AP"].get<double>(), scores["AP_novel"].get<double>(), 1e-6);
  EXPECT_NEAR(matrix.json()["AF"].get<double>(), scores["AF_novel"].get<double>(), 1e-6);
  EXPECT_EQ(run_program({"matrix", out + "/vanilla/matrix_novel.csv"}).status, 0);
  const auto stored = nlohmann::json::parse(read_text(out + "/vanilla/metrics.json"));
  EXPECT_NEAR(stored["scores"]["AP_novel"].get<double>(), scores["AP_novel"].get<double>(), 1e-6);
  EXPECT_EQ(stored["held_out"], "");
  EXPECT_CONTAINS(read_text(out + "/compare.md"), "AP\\_novel");
}

TEST_F(RunSummary, AHeldOutGroupIsKnownToTheTables) {
  const auto exported = run_program({"world", "export", "--stream", "world-sc", "-o", folder / "world", "--train", "12",
                                     "--val", "6", "--tune", "2", "--size", "40"});
  ASSERT_EQ(exported.status, 0) << exported.error;
  const std::string index_path = folder / "world/stream.json";
  auto index = nlohmann::json::parse(read_text(index_path));
  index["tasks"].erase(index["tasks"].begin() + 3, index["tasks"].end());
  index["tasks"][0]["files"].erase("novel");  // as VQACL's first task
  index["options"]["held_out"] = "G2";
  write_text(index_path, index.dump());
  write_config(folder / "out", "vanilla", "stream:\n  name: manifest\n  path: " + folder / "world" + "\n");
  const auto run = run_program({"run", folder / "c.yaml", "--json"});
  ASSERT_EQ(run.status, 0) << run.error;
  EXPECT_EQ(run.json()["runs"][0]["metrics"]["held_out"], "G2");
  const auto matrix = run_program({"matrix", folder / "out/vanilla/matrix_novel.csv", "--json"});
  ASSERT_EQ(matrix.status, 0) << matrix.error;
  EXPECT_EQ(matrix.json()["left_out"], nlohmann::json({"count"}));
  EXPECT_CONTAINS(run_program({"compare", folder / "out"}).out, "mean over G2 held out");
}

TEST_F(RunSummary, TaskNamesOfEveryKind) {
  const auto exported = run_program({"world", "export", "--stream", "world-10", "-o", folder / "world", "--train", "12",
                                     "--val", "6", "--size", "40"});
  ASSERT_EQ(exported.status, 0) << exported.error;
  const std::string index_path = folder / "world/stream.json";
  auto index = nlohmann::json::parse(read_text(index_path));
  index["tasks"].erase(index["tasks"].begin() + 2, index["tasks"].end());
  const auto rename = [&](const std::string& first, const std::string& second) {
    index["tasks"][0]["name"] = first;
    index["tasks"][1]["name"] = second;
    write_text(index_path, index.dump());
  };
  const std::vector<std::string> doctor = {"doctor", folder / "c.yaml"}, run = {"run", folder / "c.yaml"},
                                 prepare = {"prepare", "manifest", "--source", folder / "world", "-o", folder / "p"};
  write_config(folder / "out", "vanilla", "stream:\n  name: manifest\n  path: " + folder / "world" + "\n");
  const auto refused = [&](const std::string& part) {
    for (const auto& command : {run, prepare}) expect_refused(command, part);
    const auto outcome = run_program(doctor);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_CONTAINS(outcome.out + outcome.error, part);
    EXPECT_FALSE(fs::exists(folder / "out"));
    EXPECT_FALSE(fs::exists(folder / "p/stream.json"));
  };
  rename("a", "a");
  refused("task 'a' stands twice");
  rename("a\nb", "c");
  refused("holds a control character");
  rename("\x1b[31mred", "c");
  refused("'\\x1b[31mred', holds a control character");
  rename(std::string(121, 'x'), "c");
  refused("has 121 characters");
  expect_refused({"run", folder / "c.yaml", "--set", "label=\x1b[2J"}, "label: '\\x1b[2J' holds a control character");
  rename("count, or \"not\"", " =1+1");
  ASSERT_EQ(run_program(prepare).status, 0);
  const auto outcome = run_program(run);
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  for (const char* command : {"compare", "report"})
    EXPECT_EQ(run_program({command, folder / "out"}).status, 0) << command;
  const auto matrix = run_program({"matrix", folder / "out/vanilla/matrix.csv", "--json"});
  ASSERT_EQ(matrix.status, 0) << matrix.error;
  EXPECT_EQ(matrix.json()["tasks"], nlohmann::json({"count, or \"not\"", " =1+1"}));
}

TEST_F(RunSummary, AGridIsJudgedByTheMatrices) {
  write_config(folder / "out", "vanilla", "");
  const std::vector<std::string> tune = {"tune",     folder / "c.yaml", "--grid", "learning_rate=[0.01,0.02]",
                                         "--resume", "--json"};
  const auto before = run_program(tune);
  ASSERT_EQ(before.status, 0) << before.error;
  const std::string path = folder / "out/learning_rate=0.01/vanilla/metrics.json";
  auto metrics = nlohmann::json::parse(read_text(path));
  metrics["scores"]["AP"] = 99.9;
  write_text(path, metrics.dump());
  // With its checksums the run is put right again, without them the matrix is what counts.
  EXPECT_EQ(run_program(tune).json()["points"], before.json()["points"]);
  write_text(path, metrics.dump());
  fs::remove(folder / "out/learning_rate=0.01/vanilla/checksums.json");
  const auto after = run_program(tune);
  ASSERT_EQ(after.status, 0) << after.error;
  EXPECT_EQ(after.json()["points"], before.json()["points"]);
}

TEST_F(RunSummary, UnfinishedRunsAreShownAsSuch) {
  const auto out = folder / "out";
  write_config(out, "vanilla", "");
  ASSERT_EQ(run_program({"run", folder / "c.yaml"}).status, 0);
  const std::string path = out + "/vanilla/metrics.json", matrix = out + "/vanilla/matrix.csv";
  auto metrics = nlohmann::json::parse(read_text(path));
  metrics["complete"] = false;
  write_text(path, metrics.dump());
  const auto rows = read_text(matrix);
  write_text(matrix, rows.substr(0, rows.find("\n3,") + 1));
  fs::remove(out + "/vanilla/checksums.json");
  const auto compared = run_program({"compare", out});
  ASSERT_EQ(compared.status, 0) << compared.error;
  EXPECT_CONTAINS(compared.out, "vanilla (2 of 3 stages)");
  EXPECT_CONTAINS(compared.out, "not complete, 2 of 3 stages");
  const auto reported = run_program({"report", out});
  ASSERT_EQ(reported.status, 0) << reported.error;
  EXPECT_CONTAINS(reported.error, "not complete, 2 of 3 stages");
  EXPECT_CONTAINS(read_text(out + "/report.html"), "vanilla (2 of 3 stages)");
}

TEST(WorldCaptions, AreScoredBySevenPartsAndMayExceedAHundred) {
  if (!std::getenv("ASR_WORDNET") && !fs::exists("/usr/share/wordnet/data.noun"))
    GTEST_SKIP() << "WordNet is not installed (package wordnet-base) and ASR_WORDNET is not set";
  const auto& stream = world::stream("world-cit");
  const size_t task = stream.tasks.size() - 1;
  ASSERT_EQ(stream.tasks[task].name, "caption");
  EXPECT_STREQ(stream.tasks[task].metric(), "caption7");
  std::vector<Answered> perfect;
  for (uint64_t i = 0; i < 40; ++i) {
    const auto sample = world::sample(stream, task, world::Split::val, i);
    perfect.push_back({std::to_string(i), sample.question.answer, sample.question.references});
  }
  EXPECT_GT(evaluate_metric("caption7", perfect).score, 100);
}

TEST_F(RunSummary, AMetricWhoseDictionaryIsMissingIsSaidBeforeAnythingRuns) {
  write_config(folder / "out", "vanilla", "");
  setenv("ASR_WORDNET", (folder / "none").c_str(), 1);
  expect_refused({"run", folder / "c.yaml", "--set", "stream.name=world-cit", "--set", "stream.tasks=8"},
                 "WordNet is missing");
  unsetenv("ASR_WORDNET");
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST_F(RunSummary, AnEditedMetricsFileIsNotBelieved) {
  const auto out = folder / "out";
  write_config(out, "vanilla", "");
  ASSERT_EQ(run_program({"run", folder / "c.yaml"}).status, 0);
  const auto before = run_program({"compare", out, "--json"}).json();
  const std::string path = out + "/vanilla/metrics.json";
  auto metrics = nlohmann::json::parse(read_text(path));
  metrics["scores"]["AP"] = 99.9;
  write_text(path, metrics.dump());
  expect_refused({"compare", out}, "metrics.json");  // its checksum
  fs::remove(out + "/vanilla/checksums.json");
  const auto after = run_program({"compare", out, "--json"}).json();
  EXPECT_EQ(after["tables"], before["tables"]);
  EXPECT_CONTAINS(after["notes"].dump(), "metrics.json contradicts the score matrix (AP 99.9 instead of");
  EXPECT_EQ(run_program({"report", out}).status, 0);
}

}  // namespace
}  // namespace asr
