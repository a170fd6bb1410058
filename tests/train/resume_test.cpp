// What may go on in a run's folder and what may not: nothing is joined to a run that does not belong to it, a refusal
// changes no file, damage is noticed, and what a checkpoint can bring back is brought back.
#include <filesystem>
#include <functional>
#include <map>

#include "backbones/adapter_file.h"
#include "base/checksums.h"
#include "base/folders.h"
#include "base/interrupt.h"
#include "tensor/tensor_io.h"
#include "tests/support/reference_models.h"
#include "tests/support/small_tokenizer.h"
#include "tests/train/run_support.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Tree = std::map<std::string, std::string>;

// Every file below a folder with its content and time.
Tree tree_of(const std::string& folder) {
  Tree out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    out[entry.path().string()] = entry.is_directory() ? "folder"
                                                      : cat(sha256_of(read_text(entry.path())), " ",
                                                            entry.last_write_time().time_since_epoch().count());
  return out;
}

void flip_byte(const std::string& path, size_t place) {
  auto bytes = read_text(path);
  ASSERT_LT(place, bytes.size()) << path;
  bytes[place] ^= 1;
  write_text(path, bytes);
}
void flip_middle(const std::string& path) {
  flip_byte(path, read_text(path).size() / 2);
}

// Two tasks, 3 steps each; `more` overrides.
std::vector<Assignment> resume_options(const TemporaryFolder& folder, const std::string& out,
                                       const std::vector<std::pair<std::string, std::string>>& more = {}) {
  auto list = small_run(folder / "model", folder / out, "vanilla");
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"stream.tasks", "2"}, {"stream.val", "4"}, {"save_steps", "1"}})
    list.push_back({key, value, "test"});
  for (const auto& [key, value] : more) list.push_back({key, value, "test"});
  return list;
}

// Begins a run and stops it after each of its first steps, as a signal would.
void stop_after(const std::vector<Assignment>& options, int steps) {
  for (int i = 0; i < steps; ++i) {
    plan_stop(SIGINT, StopPlace::step);
    EXPECT_CONTAINS(message_of([&] { run_small(options, i > 0); }), "--resume");
    forget_stop();
  }
}

// A resume that must be refused with `part` in its one line, leaving every byte below `folder` as it was.
void expect_resume_refused(const std::vector<Assignment>& options, const std::string& folder, const std::string& part) {
  const auto before = tree_of(folder);
  EXPECT_CONTAINS(error_of([&] { run_small(options, true); }), part);
  EXPECT_TRUE(tree_of(folder) == before) << "a refused resume has changed something: " << part;
}

TEST(Resume, JoinsNoOtherMethodSeedOrOption) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = [&](const std::vector<std::pair<std::string, std::string>>& more) {
    return resume_options(folder, "out", more);
  };
  const auto out = folder / "out";
  for (const bool complete : {false, true}) {
    const auto label = complete ? "whole" : "part";
    if (complete)
      run_small(options({{"label", label}}));
    else
      stop_after(options({{"label", label}}), 2);
    expect_resume_refused(options({{"label", label}, {"method", "ewc"}}), out, "method \"vanilla\", not \"ewc\"");
    expect_resume_refused(options({{"label", label}, {"lora_rank", "4"}}), out, "another 'lora_rank'");
    expect_resume_refused(options({{"label", label}, {"asr.beta", "7"}}), out, "another 'asr.beta'");
    // Options of methods that are not in it do not count.
    EXPECT_EQ(message_of([&] {
                if (complete) run_small(options({{"label", label}, {"ewc.lambda", "7"}}), true);
              }),
              "");
    run_small(options({{"label", cat(label, "-seed3")}}));
    expect_resume_refused(options({{"label", label}, {"seeds", "[3]"}}), out, "with seed 0, not 3");
  }
}

// A stream of a user's own with a picture each.
void write_picture_stream(const TemporaryFolder& folder, const std::string& metric = "exact", int tokens = 4,
                          const std::string& name = "b") {
  fs::create_directories(folder / "in/images");
  json tasks = json::array();
  for (const auto& task : {std::string("a"), name}) {
    std::string text[2];
    for (int i = 0; i < 12; ++i) {
      const auto picture = cat("p", i, ".png");
      if (!fs::exists(folder / ("in/images/" + picture))) write_grey_picture(folder / ("in/images/" + picture), 20 * i);
      text[i < 8 ? 0 : 1] +=
          json{{"id", i}, {"image", picture}, {"question", "is it?"}, {"answer", "yes"}}.dump() + "\n";
    }
    write_text(folder / ("in/" + task + ".train.jsonl"), text[0]);
    write_text(folder / ("in/" + task + ".val.jsonl"), text[1]);
    tasks.push_back({{"name", task},
                     {"metric", metric},
                     {"answer_tokens", tokens},
                     {"files", {{"train", task + ".train.jsonl"}, {"val", task + ".val.jsonl"}}}});
  }
  write_text(folder / "in/stream.json", json{{"tasks", tasks}, {"images", "images"}}.dump());
}

TEST(Resume, KnowsDataParserAndTaxonomyByContent) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_picture_stream(folder);
  fs::copy(ASR_SOURCE_DIR "/assets/parser-world.safetensors", folder / "parser.safetensors");
  fs::copy(ASR_SOURCE_DIR "/configs/taxonomy.yaml", folder / "taxonomy.yaml");
  auto options = resume_options(folder, "out",
                                {{"stream.name", "manifest"},
                                 {"stream.path", folder / "in"},
                                 {"skills.parser", folder / "parser.safetensors"},
                                 {"skills.taxonomy", folder / "taxonomy.yaml"}});
  options.erase(std::remove_if(options.begin(), options.end(),
                               [](const auto& a) {
                                 return a.key == "stream.tasks" || a.key == "stream.train" || a.key == "stream.val" ||
                                        a.key == "stream.image_size" || a.value == "world-10";
                               }),
                options.end());
  stop_after(options, 1);
  const auto refused = [&](const std::string& path, const std::string& part, const std::function<void()>& change) {
    const auto content = read_text(path);
    change();
    expect_resume_refused(options, folder / "out", part);
    write_text(path, content);
  };
  const auto picture = folder / "in/images/p3.png";
  refused(picture, "on other pictures", [&] { write_grey_picture(picture, 99); });
  refused(folder / "in/stream.json", "on other data", [&] { write_picture_stream(folder, "vqa"); });
  refused(folder / "in/stream.json", "on other data", [&] { write_picture_stream(folder, "exact", 5); });
  refused(folder / "in/stream.json", "on other data", [&] { write_picture_stream(folder, "exact", 4, "c"); });
  refused(folder / "in/a.val.jsonl", "on other data", [&] {
    write_text(folder / "in/a.val.jsonl", read_text(folder / "in/a.val.jsonl") +
                                              R"({"id": 77, "image": "p1.png", "question": "is it?", "answer": "no"})"
                                              "\n");
  });
  refused(folder / "parser.safetensors", "another skill parser", [&] {
    const auto file = read_safetensors(folder / "parser.safetensors");
    NamedTensors tensors;
    for (const auto& view : file.tensors) tensors.emplace_back(view.name, load_tensor(file, view.name).clone());
    tensors[0].second.flatten()[0].add_(1);
    auto metadata = file.metadata;
    metadata.erase("sha256");
    save_tensors(folder / "parser.safetensors", tensors, metadata);
  });
  refused(folder / "taxonomy.yaml", "another taxonomy",
          [&] { write_text(folder / "taxonomy.yaml", read_text(folder / "taxonomy.yaml") + "# a remark\n"); });
  EXPECT_EQ(message_of([&] { run_small(options, true); }), "");
}

TEST(Resume, KnowsEveryFileOfAModelFolderByContent) {
  const auto golden = open_reference("instructblip");
  if (!fs::exists(golden.folder + "/tokenizer.json")) write_small_tokenizer(golden.folder, golden.config);
  TemporaryFolder folder;
  auto options = resume_options(folder, "out",
                                {{"model_name_or_path", golden.folder},
                                 {"stream.train", "4"},
                                 {"stream.val", "2"},
                                 {"per_device_train_batch_size", "2"},
                                 {"attention.layers", "1"},
                                 {"attention.grid", "6"},
                                 {"analysis.samples", "2"},
                                 {"lora_rank", "4"}});
  stop_after(options, 1);
  int files = 0;
  auto names = list_folder(golden.folder);
  for (const auto& name : list_folder(golden.folder + "/qformer_tokenizer"))
    names.push_back("qformer_tokenizer/" + name);
  for (const auto& name : names) {
    const auto path = golden.folder + "/" + name;
    if (name == "io.safetensors" || fs::is_directory(path)) continue;
    const auto content = read_text(path);
    SCOPED_TRACE(path);
    if (fs::path(name).extension() == ".safetensors")
      flip_byte(path, content.size() - 1);  // the size, the header and its names stay
    else
      write_text(path, content + " ");
    expect_resume_refused(options, folder / "out", "from another base model");
    write_text(path, content);
    ++files;
  }
  EXPECT_GE(files, 4);  // configuration, weights, tokenizer, processor
  EXPECT_EQ(message_of([&] { run_small(options, true); }), "");
}

// What a resume says on stderr; empty message: it went through.
struct ResumeOutcome {
  std::string message, said;
  bool names(const std::string& part) const {
    return message.find(part) != std::string::npos || said.find(part) != std::string::npos;
  }
};
ResumeOutcome resume_run(const std::vector<Assignment>& options) {
  testing::internal::CaptureStderr();
  const auto message = message_of([&] { run_small(options, true); });
  return {message, testing::internal::GetCapturedStderr()};
}

// A copy of a folder that can be put back.
class Backup {
 public:
  explicit Backup(std::string folder) : folder_(std::move(folder)) { fs::copy(folder_, copy_ / "copy", kAll); }
  void restore() const {
    fs::remove_all(folder_);
    fs::copy(copy_ / "copy", folder_, kAll);
  }

 private:
  static constexpr auto kAll = fs::copy_options::recursive;
  TemporaryFolder copy_;
  std::string folder_;
};

// Files that no command reads again; docs/files.md says so.
bool is_never_read(const std::string& name) {
  return name == "trainer_state.json" || name == "hashes.json" || name.find("tfevents") != std::string::npos;
}

TEST(Resume, NoticesAFlippedByteInEveryFile) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  for (const bool complete : {false, true}) {
    const auto out = folder / (complete ? "whole" : "part");
    const auto options = resume_options(folder, complete ? "whole" : "part", {{"save_total_limit", "1"}});
    if (complete)
      run_small(options);
    else
      stop_after(options, 5);  // in the second stage
    const Backup backup(out);
    int files = 0;
    for (const auto& [path, content] : tree_of(out)) {
      const auto name = fs::path(path).filename().string();
      if (content == "folder" || is_never_read(name) || path == out + "/config.yaml") continue;
      if (read_text(path).empty()) continue;
      SCOPED_TRACE(path);
      flip_middle(path);
      const auto before = tree_of(out);
      const auto outcome = resume_run(options);
      EXPECT_TRUE(outcome.names(name)) << outcome.message << outcome.said;
      if (!outcome.message.empty()) {
        EXPECT_TRUE(tree_of(out) == before) << "a refused resume has changed something";
      }
      backup.restore();
      ++files;
    }
    EXPECT_GT(files, 10);
  }
}

TEST(Resume, BringsBackResultsFromTheCheckpoint) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = resume_options(folder, "out");
  const auto run = run_small(options)[0];
  const auto before = tree_of(run);
  for (const char* name : {"metrics.json", "matrix.csv", "adapter/adapter_model.safetensors", "memory.safetensors"}) {
    const auto content = read_text(cat(run, "/", name));
    flip_middle(cat(run, "/", name));
    const auto outcome = resume_run(options);
    EXPECT_EQ(outcome.message, "") << name;
    EXPECT_CONTAINS(outcome.said, "written again");
    EXPECT_TRUE(read_text(cat(run, "/", name)) == content) << name;
  }
}

TEST(Resume, AnAdapterOfARunIsCheckedBeforeItIsUsed) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto adapter = run_small(resume_options(folder, "out"))[0] + "/adapter";
  const auto model = load_backbone(folder / "model");
  EXPECT_FALSE(load_adapter(*model, adapter).empty());
  for (const std::string name : {"/adapter_config.json", "/adapter_model.safetensors"}) {
    const auto content = read_text(adapter + name);
    flip_middle(adapter + name);
    EXPECT_CONTAINS(error_of([&] { load_adapter(*model, adapter); }), adapter + name);
    write_text(adapter + name, content);
  }
  // Elsewhere the configuration is the user's to edit.
  fs::copy(adapter, folder / "copy");
  auto config = read_text(folder / "copy/adapter_config.json");
  write_text(folder / "copy/adapter_config.json", config.insert(config.find("\"bias\""), "\"remark\": 1, "));
  EXPECT_FALSE(load_adapter(*model, folder / "copy").empty());
}

TEST(Resume, NamesWhatIsMissingAndGoesOn) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto straight = run_small(resume_options(folder, "straight"))[0];
  const auto options = resume_options(folder, "out");
  const auto out = folder / "out", run = out + "/vanilla";
  stop_after(options, 5);  // in the second stage, after its second step
  const Backup backup(out);
  const auto goes_on = [&](const std::vector<std::string>& parts) {
    const auto outcome = resume_run(options);
    EXPECT_EQ(outcome.message, "");
    for (const auto& part : parts) EXPECT_CONTAINS(outcome.said, part);
    EXPECT_EQ(read_text(run + "/matrix.csv"), read_text(straight + "/matrix.csv"));
    EXPECT_EQ(resume_run(options).message, "");  // complete, and all of it is right
    backup.restore();
  };
  fs::remove_all(run + "/stages");
  goes_on({"stages/01/analysis.safetensors: is missing", "stages/01/kept.json: is missing"});
  fs::remove(run + "/predictions/stage-01-task-01.jsonl");
  goes_on({"predictions/stage-01-task-01.jsonl: is missing"});
  fs::remove(out + "/fingerprint.json");
  goes_on({"fingerprint.json: is missing; it is written again"});
  fs::remove(run + "/fingerprint.json");
  goes_on({"fingerprint.json: is missing; it is written again from the checkpoint"});
  fs::remove(run + "/checksums.json");
  goes_on({"has no checksums.json"});
  const auto log = read_text(run + "/log.jsonl");
  const auto second = log.find("\"current_steps\":2"), whole = log.rfind('\n', second) + 1;
  fs::resize_file(run + "/log.jsonl", second + 5);  // in the middle of a line
  const auto outcome = resume_run(options);
  EXPECT_EQ(outcome.message, "");
  EXPECT_CONTAINS(outcome.said, "lines of steps 2 to 5 are missing");
  const auto again = read_text(run + "/log.jsonl");
  EXPECT_EQ(again.substr(0, whole), log.substr(0, whole));
  EXPECT_CONTAINS(again, "\"note\":\"lines of steps 2 to 5 are missing\"");
  std::istringstream lines(again);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(json::accept(line)) << line;
}

TEST(Resume, BeginsNothingAnewWhereWorkWasDone) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = resume_options(folder, "out");
  const auto out = folder / "out", checkpoints = out + "/vanilla/checkpoints";
  stop_after(options, 5);
  const Backup backup(out);
  for (const auto& name : list_folder(checkpoints)) flip_middle(checkpoints + "/" + name + "/state.safetensors");
  expect_resume_refused(options, out, "no checkpoint is whole");
  backup.restore();
  fs::remove_all(checkpoints);
  expect_resume_refused(options, out, "scores of trained stages but no checkpoint");
}

TEST(Resume, DamagedCheckpointsArePutAside) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const std::vector<std::pair<std::string, std::string>> keep = {{"save_total_limit", "3"}};
  const auto straight = run_small(resume_options(folder, "straight", keep))[0];
  const auto options = resume_options(folder, "out", keep);
  const auto checkpoints = folder / "out/vanilla/checkpoints";
  stop_after(options, 5);
  for (const int step : {4, 5}) flip_middle(cat(checkpoints, "/checkpoint-", step, "/state.safetensors"));
  // With two left of which both are damaged and newer, every new one would vanish at once.
  auto fewer = options;
  fewer.push_back({"save_total_limit", "2", "test"});
  plan_stop(SIGINT, StopPlace::step);
  EXPECT_CONTAINS(message_of([&] { run_small(fewer, true); }), "--resume");
  forget_stop();
  EXPECT_EQ(list_folder(checkpoints),
            (std::vector<std::string>{"checkpoint-3", "checkpoint-4", "damaged-4", "damaged-5"}));
  EXPECT_EQ(load_latest_checkpoint(checkpoints)->state["global_step"], 4);
  run_small(options, true);
  EXPECT_EQ(read_text(folder / "out/vanilla/matrix.csv"), read_text(straight + "/matrix.csv"));
  EXPECT_TRUE(read_text(folder / "out/vanilla/adapter/adapter_model.safetensors") ==
              read_text(straight + "/adapter/adapter_model.safetensors"));
}

// A process alone, in whose gradient a number goes wrong in its second step.
class SpoiltGradient final : public Team {
 public:
  void sum(torch::Tensor& gradient) const override {
    if (gradient.numel() > 100 && ++steps_ == 2) gradient[0] = INFINITY;
  }

 private:
  mutable int steps_ = 0;
};

TEST(Divergence, AGradientThatIsNoNumberIsNotStepped) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto straight = run_small(resume_options(folder, "straight"))[0];
  const auto options = resume_options(folder, "out");
  const SpoiltGradient team;
  const auto message = message_of([&] { run_all({resolve_run(options), false, "test", &team}); });
  EXPECT_CONTAINS(message, "the gradient's norm is inf at step 2 of stage 1, batch of world-10/count/train/");
  EXPECT_CONTAINS(message, "the last checkpoint is of step 1");
  const auto checkpoint = load_latest_checkpoint(folder / "out/vanilla/checkpoints");
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->state["global_step"], 1);
  for (const auto& [name, tensor] : checkpoint->tensors) EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  EXPECT_EQ(message_of([&] { run_small(options, true); }), "");
  EXPECT_TRUE(read_text(folder / "out/vanilla/adapter/adapter_model.safetensors") ==
              read_text(straight + "/adapter/adapter_model.safetensors"));
}

TEST(Divergence, TheAdviceToGoOnWithALowerRateWorks) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = [&](const std::string& rate) {
    return resume_options(folder, "out",
                          {{"num_train_epochs", "6"},
                           {"weight_decay", "10"},
                           {"learning_rate", rate},
                           {"lr_scheduler_type", "constant"},
                           {"save_steps", "0"},
                           {"save_minutes", "0"}});
  };
  const auto run = folder / "out/vanilla";
  stop_after(options("0.01"), 1);
  // With decay 10 and rate 10 weights grow a hundredfold a step.
  const auto diverged = resume_run(options("10"));
  EXPECT_CONTAINS(diverged.message, "the last checkpoint is of step 1");
  EXPECT_CONTAINS(diverged.message, "--set method=vanilla --set learning_rate=");
  EXPECT_CONTAINS(diverged.said, "from step 1 on learning_rate is 10");
  EXPECT_EQ(resume_run(options("0.001")).message, "");
  const auto metrics = json::parse(read_text(run + "/metrics.json"));
  ASSERT_EQ(metrics["changes"].size(), 1u);  // that of the run that diverged was never saved
  EXPECT_EQ(metrics["changes"][0]["option"], "learning_rate");
  EXPECT_EQ(metrics["changes"][0]["before"], 0.01);
  EXPECT_EQ(metrics["changes"][0]["after"], 0.001);
  EXPECT_EQ(metrics["changes"][0]["current_steps"], 1);
  EXPECT_CONTAINS(read_text(run + "/log.jsonl"), "\"changed\":");
  EXPECT_EQ(resume_run(options("0.01")).message, "");  // complete: as it was begun
  // Nothing else may begin there with another rate, and a complete run does not change.
  auto other = options("0.001");
  expect_resume_refused(other, folder / "out", "another 'learning_rate'");
  other.push_back({"method", "ewc", "test"});
  expect_resume_refused(other, folder / "out", "has not begun");
}

}  // namespace
}  // namespace asr
