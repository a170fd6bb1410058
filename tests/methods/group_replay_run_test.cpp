// Whole runs of the methods that replay by group: passes dealt out to processes, models of other kinds, both heads.
#include "tests/support/process_runs.h"
#include "tests/support/small_tokenizer.h"
#include "train/audit.h"

namespace asr {
namespace {

const std::string kReplaying = "[vqacl, bcp-mfa]";

std::vector<std::string> replaying_run(const std::string& model, const std::string& out, const Settings& more) {
  auto list = small_run(model, out, kReplaying);
  for (const auto& settings : {Settings{{"stream.tasks", "2"}, {"stream.train", "8"}, {"stream.val", "2"}}, more})
    for (const auto& [key, value] : settings) list.push_back({key, value, "test"});
  return run_small(list);
}

// With two passes a step each process takes one whole; a step moves prototypes by both.
TEST(GroupReplayRun, TwoProcessesDealOutPassesAsOneMakesThem) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto [one, two] =
      run_both(folder, {{"method", kReplaying}, {"stream.tasks", "2"}, {"gradient_accumulation_steps", "2"}}, 2);
  for (const std::string method : {"vqacl", "bcp-mfa"})
    expect_close_runs(one + "/" + method, two + "/" + method, 2e-3, false, CloseAdapters::mean);
}

// Each process has half of a batch, and the transport of the whole of it.
TEST(GroupReplayRun, TwoProcessesShareABatchsTransport) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto [one, two] = run_both(folder, {{"method", "bcp-mfa"}, {"stream.tasks", "2"}, {"bcp-mfa.weight", "50"}}, 2);
  expect_close_runs(one + "/bcp-mfa", two + "/bcp-mfa", 5e-4, false, CloseAdapters::mean);
}

TEST(GroupReplayRun, AQFormerIsTrainedAndAudited) {
  TemporaryFolder folder;
  const auto model = folder / "instructblip";
  std::filesystem::copy(ASR_SOURCE_DIR "/tests/fixtures/models/instructblip", model,
                        std::filesystem::copy_options::recursive);
  const auto config = nlohmann::json::parse(read_text(model + "/config.json"));
  if (!std::filesystem::exists(model + "/tokenizer.json")) write_small_tokenizer(model, config);
  const auto runs = replaying_run(model, folder / "out",
                                  {{"stream.train", "4"},
                                   {"per_device_train_batch_size", "2"},
                                   {"attention.layers", "1"},
                                   {"attention.grid", "6"}});
  for (const auto& run : runs) EXPECT_TRUE(audit_run(run, 4).passed()) << run;
}

TEST(GroupReplayRun, CrossAttentionAndTheClosedHeadAreServed) {
  TemporaryFolder folder;
  write_small_model(folder / "model", "tiny_cross");
  for (const auto& run : replaying_run(folder / "model", folder / "out", {{"head", "answers"}}))
    EXPECT_TRUE(audit_run(run, 8).passed()) << run;
}

}  // namespace
}  // namespace asr
