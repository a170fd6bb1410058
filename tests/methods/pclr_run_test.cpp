// PCLR in whole runs, through compressions.
#include "base/interrupt.h"
#include "tests/train/run_support.h"
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

TEST(Pclr, RefusesAnotherLayoutOfAdapters) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  EXPECT_CONTAINS(message_of([&] { run_small(small_run(folder / "model", folder / "out", "o-lora+pclr")); }),
                  "methods o-lora and pclr both lay out the adapters");
}

}  // namespace
}  // namespace asr
