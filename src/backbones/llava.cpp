// LLaVA-1.5: features of CLIP's last layer but one, without the class token, through a two-layer projector into the
// place of the image tokens. One patch is one cell of the grid.
#include "backbones/pretrained.h"
#include "base/error.h"
#include "nn/clip_vit.h"
#include "nn/model_config.h"

namespace asr {
namespace {

// From the names of older checkpoints to those of the model's parts today, which adapters are named by.
const PretrainedBackbone::Renames kLlavaRenames = {
    {"model.vision_tower.vision_model.", "model.vision_tower."},
    {"vision_tower.vision_model.", "model.vision_tower."},
    {"vision_tower.", "model.vision_tower."},
    {"multi_modal_projector.", "model.multi_modal_projector."},
    {"language_model.lm_head.", "lm_head."},
    {"language_model.model.", "model.language_model."},
};

class Llava final : public PretrainedBackbone {
 public:
  explicit Llava(const ModelFolder& folder) : PretrainedBackbone(folder, kLlavaRenames) {
    const auto& c = folder.config;
    const auto& path = folder.config_path;
    auto weights = weights_of(folder, kLlavaRenames);
    vision_ = ClipVit(c, weights.below("model.vision_tower."));
    load_text(weights);
    const bool bias = ModelConfig(c, path).flag("multimodal_projector_bias", true);
    auto projector = weights.below("model.multi_modal_projector.");
    first_ = projector.linear("linear_1", width(), vision_.width(), bias);
    second_ = projector.linear("linear_2", width(), width(), bias);
    activation_ = activation_named(ModelConfig(c, path).text("projector_hidden_act", "gelu"));
    weights.finish();
    image_token_ = ModelConfig(c, path).count("image_token_id", ModelConfig(c, path).count("image_token_index", 32000));
    load_processors(/*pictures=*/true);
    prompt_.image = "<image>";
    prompt_.beginning = "<s>";
    prompt_.before = "USER: ";
    prompt_.picture = "<image>\n";
    prompt_.after = " ASSISTANT:";
    prompt_.answer_before = " ";
    prompt_.answer_after = "</s>";
  }

  bool vision_adapted() const override { return vision_.adapted(); }

 protected:
  // vicuna_v1 of LLaVA's own code, which CoIN, SEFE and HiDe-LLaVA train and answer with.
  PromptTemplate instruction_prompt() const override {
    auto out = prompt_;
    out.before =
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
        "detailed, and polite answers to the user's questions. USER: ";
    return out;
  }

  int64_t tower_width() const override { return vision_.shape.width; }

  torch::Tensor visual_tokens(const Batch& batch, const Pass& whole, VisualLook* look) const override {
    const auto pass = picture_pass(batch, whole, vision_.tokens());
    torch::Tensor seen, states;
    {
      const at::AutoGradMode record(at::GradMode::is_enabled() && vision_.adapted());  // the tower itself is frozen
      seen = vision_(batch.pixels.to(compute_type()), pass, &states);
    }
    if (look && look->states) {
      const std::vector<int64_t> tokens(static_cast<size_t>(seen.size(0)), vision_.tokens());
      look->tower = tower_states(states, /*class_token=*/true, picture_samples(batch, tokens), batch.size());
    }
    return second_(activate(activation_, first_(seen, pass)), pass).flatten(0, 1);
  }

  std::vector<SampleCells> cells(const Batch& batch, const torch::Tensor& columns) const override {
    const auto [height, width] = grid();
    check(columns.size(1) == height * width + vision_.keep_class, "a sample has ", columns.size(1),
          " visual tokens, but attention maps need one picture of ", height, "x", width, " patches a sample");
    // The class token, where it is kept, comes first and has no place on the grid.
    return std::vector<SampleCells>(static_cast<size_t>(batch.size()),
                                    {{vision_.keep_class, height * width, height, width, {}}});
  }
  std::pair<int64_t, int64_t> grid() const override { return {vision_.shape.rows(), vision_.shape.columns()}; }
  int64_t image_tokens(const ProcessedImages&, size_t) const override { return vision_.tokens(); }

  void each_vision_weight(const std::function<void(torch::Tensor&)>& visit) override {
    vision_.each([&](torch::Tensor& weight) { visit(weight); });
    for (auto* linear : {&first_, &second_}) {
      visit(linear->weight);
      if (linear->bias.defined()) visit(linear->bias);
    }
  }
  std::vector<AdapterSite> vision_sites() override {
    auto out = vision_.sites("model.vision_tower.");
    out.push_back({"model.multi_modal_projector.linear_1", &first_, SitePart::projector});
    out.push_back({"model.multi_modal_projector.linear_2", &second_, SitePart::projector});
    return out;
  }

 private:
  ClipVit vision_;
  Linear first_, second_;
  Activation activation_ = Activation::gelu;
};

}  // namespace

std::unique_ptr<Backbone> make_llava_backbone(const ModelFolder& folder) {
  return std::make_unique<Llava>(folder);
}

}  // namespace asr
