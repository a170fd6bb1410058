// LLaMA, Vicuna, Qwen2 and Qwen2.5 without pictures: the language models of the other families, alone.
#include "backbones/pretrained.h"

namespace asr {
namespace {

class TextOnly final : public PretrainedBackbone {
 public:
  explicit TextOnly(const ModelFolder& folder) : PretrainedBackbone(folder) {
    auto weights = weights_of(folder);
    load_text(weights);
    weights.finish();
    load_processors(/*pictures=*/false);
    prompt_.beginning = folder.type == "llama" ? "<s>" : "";
    prompt_.answer_before = " ";
    prompt_.answer_after = folder.type == "llama" ? "</s>" : "<|endoftext|>";
  }

  bool vision_adapted() const override { return false; }

 protected:
  std::string text_prefix() const override { return "model."; }
};

}  // namespace

std::unique_ptr<Backbone> make_llama_backbone(const ModelFolder& folder) {
  return std::make_unique<TextOnly>(folder);
}

std::unique_ptr<Backbone> make_qwen2_backbone(const ModelFolder& folder) {
  return std::make_unique<TextOnly>(folder);
}

}  // namespace asr
