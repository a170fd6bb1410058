// How long a stage is: epochs of single tasks, and a cap on its steps.
#include "base/interrupt.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

std::vector<Assignment> with(std::vector<Assignment> list, const std::string& key, const std::string& value) {
  list.push_back({key, value, "--set"});
  return list;
}

// Steps of every stage, from the log.
std::vector<int64_t> steps_of(const std::string& run, int64_t& planned) {
  std::vector<int64_t> out;
  std::istringstream lines(read_text(run + "/log.jsonl"));
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    if (!line.contains("current_steps")) continue;
    const auto stage = line["stage"].get<size_t>();
    out.resize(std::max(out.size(), stage), 0);
    ++out[stage - 1];
    planned = line["total_steps"].get<int64_t>();
  }
  return out;
}

TEST(StageLength, ByHand) {
  RunOptions run;
  run.batch = 8;
  run.accumulation = 2;
  run.num_train_epochs = 1;
  EXPECT_EQ(run.stage_steps(1, 24, 8), 2);    // 24 / 16, rounded up
  EXPECT_EQ(run.stage_steps(5, 24, 8), 8);    // 120 / 16
  EXPECT_EQ(run.stage_steps(0.5, 24, 6), 1);  // 12 / 12, with two of eight rows replayed
  run.max_stage_steps = 3;
  EXPECT_EQ(run.stage_steps(5, 24, 8), 3);
  EXPECT_EQ(run.stage_steps(1, 24, 8), 2);
  run.task_epochs = {"OCR-VQA=5", "a=b=0.5"};
  EXPECT_EQ(run.epochs_of("OCR-VQA"), 5);
  EXPECT_EQ(run.epochs_of("a=b"), 0.5);
  EXPECT_EQ(run.epochs_of("GQA"), 1);
}

TEST(StageLength, ARunKeepsToItAndResumesToTheSameBits) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = [&](const char* out) {  // 24 samples in batches of 8: three steps an epoch
    auto list = small_run(folder / "model", folder / out, "asr");
    return with(with(list, "task_epochs", "[color=2]"), "max_stage_steps", "5");
  };
  const auto straight = run_small(options("straight"))[0];
  int64_t planned = 0;
  EXPECT_EQ(steps_of(straight, planned), (std::vector<int64_t>{3, 5, 3}));
  EXPECT_EQ(planned, 11);
  for (int stop = 0; stop < 40; ++stop) {
    plan_stop(SIGINT, StopPlace::step);
    const auto last = message_of([&] { run_small(options("stopped"), stop > 0); });
    forget_stop();
    if (last.empty()) break;
  }
  expect_same_run(straight, (folder / "stopped") + "/asr");
  EXPECT_CONTAINS(message_of([&] { run_small(with(options("stopped"), "max_stage_steps", "4"), true); }),
                  "another 'max_stage_steps'");
}

TEST(StageLength, Refusals) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto message = [&](const std::string& epochs) {
    auto list = small_run(folder / "model", folder / "out", "vanilla");
    list.push_back({"stream.tasks", "0", "test"});
    return message_of([&] { run_small(with(list, "task_epochs", epochs)); });
  };
  EXPECT_CONTAINS(message("[color]"), "must be NAME=NUMBER");
  EXPECT_CONTAINS(message("[color=many]"), "must be NAME=NUMBER");
  EXPECT_CONTAINS(message("[color=0]"), "from 0.01 to 10000");
  EXPECT_CONTAINS(message("[color=1, color=2]"), "stands twice");
  EXPECT_CONTAINS(message("[colour=2]"), "did you mean 'color'");
}

}  // namespace
}  // namespace asr
