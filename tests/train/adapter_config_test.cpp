// The adapter of a run names its base as the user did, so that PEFT finds it again (tools/check_peft.py loads it
// there).
#include "tests/train/run_support.h"

namespace asr {
namespace {

TEST(AdapterConfig, NamesTheBaseAsItWasGiven) {
  TemporaryFolder folder;
  const std::string model = ASR_SOURCE_DIR "/tests/fixtures/models/llava";
  auto list = small_run(model, folder / "out", "vanilla");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"stream.tasks", "1"},
                                                        {"stream.train", "4"},
                                                        {"stream.val", "2"},
                                                        {"attention.layers", "1"},
                                                        {"analysis.samples", "2"},
                                                        {"per_device_train_batch_size", "2"}})
    list.push_back({key, value, "test"});
  const auto config = nlohmann::json::parse(read_text(run_small(list)[0] + "/adapter/adapter_config.json"));
  EXPECT_EQ(config["base_model_name_or_path"].get<std::string>(), model);
  ASSERT_TRUE(config.contains("revision"));
  EXPECT_TRUE(config["revision"].is_null());
}

}  // namespace
}  // namespace asr
