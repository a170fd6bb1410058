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
    expect_close_runs(one + "/" + method, two + "/" + method, 2e-3, false);
}

// Each process has half of a batch, and the transport of the whole of it.
TEST(GroupReplayRun, TwoProcessesShareABatchsTransport) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto [one, two] = run_both(folder, {{"method", "bcp-mfa"}, {"stream.tasks", "2"}, {"bcp-mfa.weight", "50"}}, 2);
  expect_close_runs(one + "/bcp-mfa", two + "/bcp-mfa", 5e-4, false);
}

// A replay step has as many samples as a step of the stage's own data, however that is split into passes; and what was
// replayed counts among the passes over the data. (Without bcp-mfa's transport, which is of a pass.)
TEST(GroupReplayRun, AReplayStepIsAsLargeAsAStep) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto run = [&](const char* out, const char* batch, const char* accumulation) {
    auto list = small_run(folder / "model", folder / out, "bcp-mfa");
    for (const auto& [key, value] : Settings{{"per_device_train_batch_size", batch},
                                             {"gradient_accumulation_steps", accumulation},
                                             {"lora_dropout", "0"},
                                             {"stream.tasks", "2"},
                                             {"logging_steps", "1"},
                                             {"bcp-mfa.weight", "0"},
                                             {"bcp-mfa.buffer", "20"}})
      list.push_back({key, value, "test"});
    return run_small(list)[0];
  };
  const auto steps = [](const std::string& path) {
    std::vector<nlohmann::json> out;
    std::istringstream lines(read_text(path + "/log.jsonl"));
    for (std::string text; std::getline(lines, text);)
      if (auto line = nlohmann::json::parse(text); line.contains("grad_norm")) out.push_back(std::move(line));
    return out;
  };
  const auto whole = run("whole", "8", "1"), split = run("split", "2", "4");
  const auto one = steps(whole), four = steps(split);
  ASSERT_EQ(one.size(), 6u);
  ASSERT_EQ(four.size(), 6u);
  for (size_t i = 0; i < one.size(); ++i)  // replay steps come before the fifth and the sixth
    for (const auto* name : {"loss", "grad_norm"}) {
      const double wanted = one[i][name];
      EXPECT_NEAR(four[i][name].get<double>(), wanted, 1e-2 * wanted) << name << " of step " << i + 1;
    }
  for (const auto& path : {whole, split}) {
    const auto cost = nlohmann::json::parse(read_text(path + "/metrics.json"))["cost"];
    // 24 samples a task in three steps; in the second stage three replay steps of 8 of the 20 kept.
    EXPECT_DOUBLE_EQ(cost["passes"].get<double>(), (24 + 24 + 3 * 8) / 48.0);
    EXPECT_EQ(cost["steps"], 6);
  }
}

// What a method trains beside the model is no pass over the data.
TEST(GroupReplayRun, StepsThatRunNoModelAreNoPasses) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "d-mole");
  list.push_back({"stream.tasks", "2", "test"});
  const auto cost = nlohmann::json::parse(read_text(run_small(list)[0] + "/metrics.json"))["cost"];
  EXPECT_GT(cost["steps"].get<int64_t>(), 6);  // autoencoders
  EXPECT_DOUBLE_EQ(cost["passes"].get<double>(), 1);
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
