// The folder of an adapter beside a model that it is not of: one clear line.
#include "tests/methods/every_kind.h"
#include "train/run_adapter.h"

namespace asr {
namespace {

class ForeignAdapter : public ::testing::Test {
 protected:
  // A run's adapter, away from the run, whose list of checksums would speak first.
  std::string adapter_of(const std::string& method) {
    write_small_model(folder_ / "model");
    auto list = small_run(folder_ / "model", folder_ / method, method);
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"stream.tasks", "2"},
                                                                                     {"stream.train", "8"},
                                                                                     {"stream.val", "2"},
                                                                                     {"d-mole.epochs", "2"},
                                                                                     {"analysis.samples", "2"},
                                                                                     {"analysis.overlays", "0"}})
      list.push_back({key, value, "test"});
    const auto out = folder_ / (method + "-adapter");
    std::filesystem::copy(run_small(list)[0] + "/adapter", out, std::filesystem::copy_options::recursive);
    return out;
  }
  static std::string refusal(Backbone& model, const std::string& adapter) {
    const auto out = message_of([&] { SlotAdapter slots(model, adapter); });
    EXPECT_EQ(out.find('\n'), std::string::npos) << out;
    return out;
  }
  TemporaryFolder folder_;
};

TEST_F(ForeignAdapter, IsRefusedByAModelWithOtherLinearsOrOfAnotherWidth) {
  const auto adapter = adapter_of("hide-llava");
  const auto own = load_backbone(folder_ / "model");
  EXPECT_EQ(refusal(*own, adapter), "");
  const auto llava = load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llava");
  const auto other_names = refusal(*llava, adapter);
  EXPECT_CONTAINS(other_names, adapter + "/asr_adapter.json: has an adapter at '");
  EXPECT_CONTAINS(other_names, "which this model does not have; it is of another one");
  const auto wide = TinyBackbone::random(tiny_config("tiny", "S"), WordTokenizer::from_texts({"a word"}), 7);
  const auto other_width = refusal(*wide, adapter);
  EXPECT_CONTAINS(other_width, adapter);
  EXPECT_CONTAINS(other_width, "lora_A");
}

// Descriptions and tensors of two methods, as when folders were mixed up.
TEST_F(ForeignAdapter, IsRefusedWhereItsTensorsAreOfAnotherMethod) {
  for (const std::string from : {"hide-llava", "d-mole"}) {
    const auto adapter = adapter_of(from);
    const auto model = load_backbone(folder_ / "model");
    auto about = nlohmann::json::parse(read_text(adapter + "/asr_adapter.json"));
    for (const std::string to : {"hide-llava", "d-mole", "pclr", "branchlora", "vqacl", "o-lora", "asr"}) {
      about["method"] = to;
      write_text(adapter + "/asr_adapter.json", about.dump());
      const auto message = refusal(*model, adapter);
      if (to == from)
        EXPECT_EQ(message, "");
      else
        EXPECT_CONTAINS(message, "is of " + to + ", and the tensors beside it are of " + from);
    }
  }
}

}  // namespace
}  // namespace asr
