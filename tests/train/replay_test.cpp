// Replay keeps its share of the samples at any batch, also where batches are split over processes or resumed.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/train/run_support.h"

namespace asr {
namespace {

std::vector<Assignment> replay_run(const TemporaryFolder& folder, const std::string& out, const std::string& batch,
                                   const std::string& method = "er") {
  auto list = small_run(folder / "model", folder / out, method);
  list.push_back({"per_device_train_batch_size", batch, "test"});
  list.push_back({"stream.tasks", "2", "test"});
  return list;
}

int64_t steps_of_run(const std::string& run) {
  return nlohmann::json::parse(read_text(run + "/metrics.json"))["cost"]["steps"].get<int64_t>();
}

TEST(Replay, HoldsItsShareAtSmallBatches) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const std::map<std::string, int64_t> expected = {
      {"1", 24 + 32},  // three of four passes are current
      {"2", 12 + 16},
      {"3", 8 + 11},
      {"8", 3 + 4},
  };
  for (const auto& [batch, steps] : expected)
    EXPECT_EQ(steps_of_run(run_small(replay_run(folder, "out" + batch, batch))[0]), steps) << batch;
}

// Between two steps of a stage nothing of the buffer changes: checkpoints share one file.
TEST(Replay, TheBufferIsWrittenOnceAStage) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = replay_run(folder, "out", "8");
  list.push_back({"save_steps", "1", "test"});
  list.push_back({"save_total_limit", "20", "test"});
  const auto run = run_small(list)[0];
  std::map<int64_t, uintmax_t> links;
  for (int64_t step = 1; step <= 7; ++step) {
    const auto file = cat(run, "/checkpoints/checkpoint-", step, "/kept.safetensors");
    if (std::filesystem::exists(file)) links[step] = std::filesystem::hard_link_count(file);
  }
  // Steps 4 to 7 are of the second stage, which replays what the first one left.
  ASSERT_TRUE(links.count(4) && links.count(6));
  EXPECT_GE(links[4], 3u);
  EXPECT_TRUE(std::filesystem::equivalent(run + "/checkpoints/checkpoint-4/kept.safetensors",
                                          run + "/checkpoints/checkpoint-6/kept.safetensors"));
}

// A batch of one sample that is replayed has none of the stage's own.
TEST(Replay, PassesOfReplayAloneHaveEveryTerm) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto run = run_small(replay_run(folder, "out", "1", "asr+er+lwf"))[0];
  std::istringstream lines(read_text(run + "/log.jsonl"));
  int64_t steps = 0;
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    if (!line.contains("grad_norm")) continue;
    ++steps;
    EXPECT_TRUE(line["loss"].is_number());
    if (steps > 24) {
      EXPECT_TRUE(line.contains("lwf_loss") && line.contains("spectral_loss")) << text;
    }
  }
  EXPECT_EQ(steps, 24 + 32);
}

}  // namespace
}  // namespace asr
