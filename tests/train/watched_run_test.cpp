// What a run tells while it goes on: the event file, times in the log, the header; and a row file cut short under it.
#include <atomic>
#include <sstream>
#include <thread>

#include "base/folders.h"
#include "base/interrupt.h"
#include "tests/support/event_reader.h"
#include "tests/train/run_support.h"
#include "train/announce.h"
#include "train/checkpoint.h"

namespace asr {
namespace {

using nlohmann::json;

std::vector<json> log_lines(const std::string& run) {
  std::vector<json> out;
  std::istringstream lines(read_text(run + "/log.jsonl"));
  for (std::string line; std::getline(lines, line);) out.push_back(json::parse(line, nullptr, false));
  return out;
}

std::vector<std::string> event_files(const std::string& run) {
  std::vector<std::string> out;
  for (const auto& name : list_folder(run))
    if (name.find("events.out.tfevents.") == 0) out.push_back(run + "/" + name);
  return out;
}

TEST(WatchedRun, EventsAreTheLogAlsoAfterResuming) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = [&](const char* out) {
    auto list = small_run(folder / "model", folder / out, "asr+ewc");
    list.push_back({"report_to", "[tensorboard]", "test"});
    list.push_back({"save_steps", "0", "test"});
    return list;
  };
  const auto straight = run_small(options("straight"))[0];
  for (int stop = 0; stop < 20; ++stop) {  // steps since the last checkpoint are logged again
    plan_stop(SIGINT, StopPlace::walk, 12 + 10 * stop);
    const auto message = message_of([&] { run_small(options("stopped"), stop > 0); });
    forget_stop();
    if (message.empty()) break;
  }
  const auto stopped = (folder / "stopped") + "/asr+ewc";
  ASSERT_EQ(event_files(straight).size(), 1u);
  ASSERT_EQ(event_files(stopped).size(), 1u);
  const auto whole = read_events(read_text(event_files(straight)[0])),
             again = read_events(read_text(event_files(stopped)[0]));
  ASSERT_EQ(whole.size(), log_lines(straight).size() + 1);  // and the version
  ASSERT_EQ(again.size(), whole.size());
  for (size_t i = 1; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].step, again[i].step) << i;
    EXPECT_EQ(whole[i].scalars, again[i].scalars) << i;
    EXPECT_GT(whole[i].wall_time, 1.6e9) << i;
  }
  const auto zero_shot = whole[1], step = whole[2], last = whole.back();
  for (const char* tag : {"score/count", "score/color", "summary/AP"}) EXPECT_TRUE(zero_shot.scalars.count(tag)) << tag;
  EXPECT_EQ(zero_shot.step, 0);
  for (const char* tag : {"train/loss", "train/lr", "train/grad_norm", "train/task_loss"})
    EXPECT_TRUE(step.scalars.count(tag)) << tag;
  EXPECT_EQ(step.step, 1);
  EXPECT_EQ(last.step, 3);
  int drift = 0;
  for (const auto& [tag, value] : last.scalars) drift += tag.find("drift/") == 0;
  EXPECT_GT(drift, 0);
  EXPECT_FLOAT_EQ(last.scalars.at("summary/AP"), log_lines(straight).back()["AP"].get<float>());
}

TEST(WatchedRun, NoEventsUnlessAskedForAndOtherTargetsAreRefused) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto options = small_run(folder / "model", folder / "out", "vanilla");
  EXPECT_TRUE(event_files(run_small(options)[0]).empty());
  options.push_back({"report_to", "[wandb]", "test"});
  EXPECT_CONTAINS(message_of([&] { resolve_run(options); }), "report_to: 'wandb' is unknown");
}

TEST(WatchedRun, TheLogHasTimesAndCountsTheEvaluationThatIsLeft) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto lines = log_lines(run_small(small_run(folder / "model", folder / "out", "vanilla"))[0]);
  json last_step;
  for (const auto& line : lines) {
    EXPECT_EQ(line["time"].get<std::string>().size(), std::string("2026-01-31T12:00:00Z").size());
    if (line.contains("loss")) last_step = line;
  }
  EXPECT_EQ(last_step["percentage"].get<double>(), 100);
  EXPECT_GT(last_step["remaining_time"].get<double>(), 0);  // no step is left, but three tasks are to be answered
}

TEST(WatchedRun, TheHeaderSaysWhatWillBeDone) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto options = small_run(folder / "model", folder / "out", "vanilla");
  const auto config = resolve_run(options);
  const auto stream = make_stream(config.run.stream);
  const auto model = load_backbone(folder / "model");
  std::string text;
  for (const auto& line : header_lines({config, *stream, *model, folder / "model", 4321, 9})) text += line + "\n";
  for (const char* part :
       {"world-10, 3 tasks, 72 training and 24 scored samples", "on cpu", "4321 trained numbers in float32",
        "vanilla, 9 steps of 8 samples, 72 answers", "expected  about ", "folder    "})
    EXPECT_CONTAINS(text, part);
  EXPECT_EQ(score_row({"a", "b\n"}, {1, 2}), "a 1.0, b\\x0a 2.0; mean 1.5");
  const std::vector<std::string> many(40, "t");
  EXPECT_CONTAINS(score_row(many, std::vector<double>(40, 1)), "... t 1.0");
}

TEST(WatchedRun, ARowFileCutShortIsOneLineAndACheckpoint) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "in");
  std::string train, val;
  for (int i = 0; i < 300; ++i)
    (i < 200 ? train : val) += json{{"id", i}, {"question", "is it?"}, {"answer", i % 2 ? "yes" : "no"}}.dump() + "\n";
  for (const char* task : {"a", "b"}) {
    write_text(folder / (std::string("in/") + task + ".train.jsonl"), train);
    write_text(folder / (std::string("in/") + task + ".val.jsonl"), val.substr(0, val.find('\n') + 1));
  }
  json tasks = json::array();
  for (const char* task : {"a", "b"})
    tasks.push_back(
        {{"name", task}, {"files", {{"train", cat(task, ".train.jsonl")}, {"val", cat(task, ".val.jsonl")}}}});
  write_text(folder / "in/stream.json", json{{"text_only", true}, {"tasks", tasks}}.dump());
  const auto model = std::string(ASR_SOURCE_DIR) + "/tests/fixtures/models/llava";
  auto options = small_run(model, folder / "out", "vanilla");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"stream.name", "manifest"},
                                                        {"stream.path", folder / "in"},
                                                        {"stream.tasks", "0"},
                                                        {"num_train_epochs", "1000"},
                                                        {"save_steps", "0"},
                                                        {"save_minutes", "0"},
                                                        {"attention.layers", "1"},
                                                        {"attention.grid", "6"},
                                                        {"per_device_train_batch_size", "2"}})
    options.push_back({key, value, "test"});
  const auto run = (folder / "out") + "/vanilla", rows = folder / "in/a.train.jsonl";
  std::atomic<bool> ended{false};
  std::thread cutter([&] {
    while (!ended && log_lines(run).size() < 4) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::filesystem::resize_file(rows, train.size() / 2);
  });
  const auto message = message_of([&] { run_small(options); });
  ended = true;
  cutter.join();
  EXPECT_CONTAINS(message, rows + ": has become shorter while it was in use");
  EXPECT_CONTAINS(message, "the run is saved up to step ");
  const auto lines = log_lines(run);
  const auto checkpoint = load_latest_checkpoint(run + "/checkpoints");
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->state.at("global_step").get<int64_t>(), lines.back()["current_steps"].get<int64_t>());
  EXPECT_GT(lines.back()["current_steps"].get<int64_t>(), 0);
}

}  // namespace
}  // namespace asr
