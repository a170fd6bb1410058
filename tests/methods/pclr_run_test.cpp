// PCLR in whole runs, through compressions.
#include <filesystem>

#include "base/interrupt.h"
#include "tests/support/process_runs.h"
#include "tests/support/small_tokenizer.h"
#include "train/audit.h"

namespace asr {
namespace {

// Four stages with a full pool from the second on: stopped by turns it ends in the same bits, and the audit passes.
TEST(Pclr, RunsThroughCompressionsAndResumes) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto options = [&](const std::string& out, const std::string& head) {
    auto list = small_run(folder / "model", folder / out, "pclr");
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"stream.tasks", "4"},
                                                                                     {"stream.train", "8"},
                                                                                     {"stream.val", "4"},
                                                                                     {"lora_rank", "4"},
                                                                                     {"head", head},
                                                                                     {"save_steps", "1"},
                                                                                     {"pclr.pool", "2"}})
      list.push_back({key, value, "test"});
    return list;
  };
  const auto straight = run_small(options("straight", "generate"))[0];
  const auto audit = audit_run(straight, 8);
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
  EXPECT_TRUE(audit.replay_free);
  bool ended = false;
  for (int attempt = 0; attempt < 12 && !ended; ++attempt) {
    plan_stop(SIGINT, StopPlace::step);
    try {
      run_small(options("stopped", "generate"), attempt > 0);
      ended = true;
    } catch (const std::exception& end) {
      EXPECT_CONTAINS(std::string(end.what()), "--resume");
    }
    forget_stop();
  }
  EXPECT_TRUE(ended);
  expect_same_files(straight, folder / "stopped/pclr");
  EXPECT_TRUE(audit_run(run_small(options("closed", "answers"))[0], 8).passed());
}

class PclrKinds : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, PclrKinds, ::testing::Values("tiny", "tiny_cross", "llava", "instructblip"),
                         [](const auto& kind) { return kind.param; });

// Three stages, the second with a compression and two steps of integration: two processes do what one does.
TEST_P(PclrKinds, IntegrateOverTwoProcesses) {
  TemporaryFolder folder;
  const std::string kind = GetParam();
  if (kind.rfind("tiny", 0) == 0) {
    write_small_model(folder / "model", kind);
  } else {
    std::filesystem::copy(ASR_SOURCE_DIR "/tests/fixtures/models/" + kind, folder / "model",
                          std::filesystem::copy_options::recursive);
    const auto config = nlohmann::json::parse(read_text(folder / "model/config.json"));
    if (!std::filesystem::exists(folder / "model/tokenizer.json")) write_small_tokenizer(folder / "model", config);
  }
  const auto options = [&](const std::string& out) {
    auto list = small_run(folder / "model", folder / out, "pclr");
    for (const auto& [key, value] : Settings{{"stream.tasks", "3"},
                                             {"stream.train", "4"},
                                             {"stream.val", "2"},
                                             {"per_device_train_batch_size", "2"},
                                             {"lora_rank", "4"},
                                             {"lora_alpha", "32"},
                                             {"attention.layers", "1"},
                                             {"attention.grid", "6"},
                                             {"analysis.samples", "2"},
                                             {"analysis.overlays", "0"},
                                             {"pclr.pool", "2"}})
      list.push_back({key, value, "test"});
    return list;
  };
  const auto one = run_small(options("one"))[0];
  run_with_two(options("two"), folder / "two");
  expect_close_runs(one, folder / "two/pclr", 2e-3, /*spectra=*/false);
  const auto divergences = [](const std::string& run) {
    std::vector<double> out;
    for (const auto& line : log_of(run))
      if (line.contains("integration_loss")) out.push_back(line["integration_loss"].get<double>());
    return out;
  };
  const auto alone = divergences(one), shared = divergences(folder / "two/pclr");
  ASSERT_EQ(alone.size(), 2u);
  ASSERT_EQ(shared.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GT(alone[i], 1e-4);
    EXPECT_NEAR(alone[i], shared[i], 0.01 * alone[i]);
  }
}

TEST(Pclr, RefusesAnotherLayoutOfAdapters) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  EXPECT_CONTAINS(message_of([&] { run_small(small_run(folder / "model", folder / "out", "o-lora+pclr")); }),
                  "methods o-lora and pclr both lay out the adapters");
}

}  // namespace
}  // namespace asr
