// geometry.batch=global over processes: whole passes dealt out, and passes that are split.
#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

std::vector<double> geometry_losses(const TemporaryFolder& folder, const std::string& name, const std::string& batch,
                                    const std::string& passes, const std::string& processes) {
  auto list = small_run(folder / "model", folder / name, "asr");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"per_device_train_batch_size", batch},
                                                        {"gradient_accumulation_steps", passes},
                                                        {"geometry.batch", "global"},
                                                        {"lora_dropout", "0"},
                                                        {"stream.tasks", "1"},
                                                        {"num_train_epochs", "2"},
                                                        {"head", "answers"},
                                                        {"asr.gamma", "0.5"},
                                                        {"learning_rate", "0.003"}})
    list.push_back({key, value, "test"});
  std::map<std::string, std::string> last;
  for (const auto& a : list) last[a.key] = a.value;
  std::string yaml;
  for (const auto& [key, value] : last) yaml += key + ": " + value + "\n";
  write_text(folder / (name + ".yaml"), yaml);
  const auto run = run_program({"run", folder / (name + ".yaml"), "--threads", "1", "--processes", processes});
  EXPECT_EQ(run.status, 0) << run.error;
  std::vector<double> out;
  std::istringstream lines(read_text((folder / name) + "/asr/log.jsonl"));
  for (std::string text; std::getline(lines, text);)
    if (const auto line = nlohmann::json::parse(text); line.contains("grad_norm")) out.push_back(line["geometry_loss"]);
  return out;
}

TEST(GeometryProcesses, AWholeStepIsTheSameHoweverItIsSplit) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto one = geometry_losses(folder, "one", "12", "1", "1");
  ASSERT_EQ(one.size(), 4u);
  EXPECT_GT(one.back(), 0);
  const auto dealt = geometry_losses(folder, "dealt", "3", "4", "2"),
             split = geometry_losses(folder, "split", "4", "3", "2");
  ASSERT_EQ(dealt.size(), one.size());
  ASSERT_EQ(split.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(dealt[i], one[i], 1e-3 * one[i] + 1e-7) << i;
    EXPECT_NEAR(split[i], one[i], 1e-3 * one[i] + 1e-7) << i;
  }
}

}  // namespace
}  // namespace asr
