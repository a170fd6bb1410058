// asr evaluate: a finished adapter on the tasks of its own run, on tasks that the run never saw, and the base alone.
#include <filesystem>

#include "io/csv.h"
#include "tests/support/process_runs.h"

namespace asr {
namespace {

// The scores of a row of RUN/matrix.csv; row 0 is the base's.
std::vector<double> matrix_row(const std::string& run, size_t row) {
  const auto lines = split_csv(read_text(run + "/matrix.csv"), "matrix.csv");
  std::vector<double> out;
  for (size_t i = 1; i < lines.at(row + 1).fields.size(); ++i)
    if (!lines[row + 1].fields[i].empty()) out.push_back(std::stod(lines[row + 1].fields[i]));
  return out;
}

TEST(EvaluateCommand, ScoresAsTheRunDidAndOnUnseenTasks) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const Settings settings = {{"stream.tasks", "2"}, {"stream.val", "12"}, {"per_device_eval_batch_size", "12"}};
  auto routed = settings;
  routed.emplace_back("method", "[route, vanilla]");
  const auto config = write_config(folder, "runs", routed);
  ASSERT_EQ(run_program({"run", config, "--threads", "1"}).status, 0);
  const auto scores = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"evaluate", config, "--threads", "1", "--json"};
    command.insert(command.end(), more.begin(), more.end());
    const auto outcome = run_program(command);
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcome.json();
  };
  const auto expect_row = [](const nlohmann::json& found, const std::vector<double>& wanted) {
    ASSERT_GE(found["tasks"].size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found["tasks"][i]["score"].get<double>(), wanted[i], 1e-6);
  };
  expect_row(scores({}), matrix_row(folder / "runs/vanilla", 0));
  expect_row(scores({"--adapter", folder / "runs/vanilla/adapter"}), matrix_row(folder / "runs/vanilla", 2));
  const auto answers = folder / "answers";
  const auto more =
      scores({"--adapter", folder / "runs/route/adapter", "--set", "stream.tasks=3", "--predictions", answers});
  expect_row(more, matrix_row(folder / "runs/route", 2));
  ASSERT_EQ(more["tasks"].size(), 3u);
  int64_t answered = 0;
  const auto answered_by = more["tasks"][2].value("answered_by", nlohmann::json::object());
  for (const auto& [slot, count] : answered_by.items()) answered += count.get<int64_t>();
  EXPECT_EQ(answered, 12);
  EXPECT_EQ(read_text(answers + "/task-01.jsonl"), read_text(folder / "runs/route/predictions/stage-02-task-01.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(answers + "/task-03.jsonl"));

  expect_refused({"evaluate", config, "--adapter", folder / "runs/route"}, "is the folder of a run; its adapter is");
  expect_refused({"evaluate", config, "--adapter", folder / "nothing"}, "nothing");
  expect_refused({"evaluate", config, "--set", "head=answers"}, "leave head away");
  expect_refused({"evaluate", config, "--set", "eval_split=tset"}, "eval_split");
}

}  // namespace
}  // namespace asr
