// What a replay buffer holds is found by the audit, which lets it pass where the method declares it.
#include "tests/train/run_support.h"
#include "train/audit.h"

namespace asr {
namespace {

TEST(Replay, IsRecognisedInACheckpoint) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto audit = audit_run(run_small(small_run(folder / "model", folder / "out", "er"))[0], 24);
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
  EXPECT_FALSE(audit.replay_free);
  int found = 0;
  for (const auto& item : audit.kept) found += !item.found.empty();
  EXPECT_GE(found, 2);  // pictures and texts are both recognised
}

}  // namespace
}  // namespace asr
