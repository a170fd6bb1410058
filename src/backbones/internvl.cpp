// InternVL3: a picture is cut into tiles (and, where there are several, a thumbnail of the whole), each seen by
// InternViT and folded to a quarter of its patches. The tiles lie row-major on one large grid; the thumbnail is left
// out unless it is all there is.
#include "backbones/pretrained.h"
#include "base/error.h"
#include "nn/activation.h"
#include "nn/intern_vit.h"
#include "nn/model_config.h"

namespace asr {
namespace {

const PretrainedBackbone::Renames kRenames = {
    {"vision_tower.", "model.vision_tower."},
    {"multi_modal_projector.", "model.multi_modal_projector."},
    {"language_model.lm_head.", "lm_head."},
    {"language_model.model.", "model.language_model."},
};

class InternVl final : public PretrainedBackbone {
 public:
  explicit InternVl(const ModelFolder& folder) : PretrainedBackbone(folder, kRenames) {
    const auto& c = folder.config;
    const auto& path = folder.config_path;
    Weights weights(folder.path, kRenames);
    vision_ = InternVit(c, weights.below("model.vision_tower."));
    load_text(weights);
    auto projector = weights.below("model.multi_modal_projector.");
    norm_ = projector.layer_norm("layer_norm", vision_.width(), 1e-5);
    first_ = projector.linear("linear_1", width(), vision_.width(), true);
    second_ = projector.linear("linear_2", width(), width(), true);
    activation_ = activation_named(ModelConfig(c, path).text("projector_hidden_act", "gelu"));
    weights.finish();
    image_token_ = ModelConfig(c, path).count("image_token_id", 151667);
    load_processors(/*pictures=*/true);
    prompt_.image = "<IMG_CONTEXT>", prompt_.image_open = "<img>", prompt_.image_close = "</img>";
    prompt_.before = "<|im_start|>user\n", prompt_.picture = "<IMG_CONTEXT>\n";
    prompt_.after = "<|im_end|>\n<|im_start|>assistant\n";
    prompt_.answer_after = "<|im_end|>";
  }

 protected:
  torch::Tensor visual_tokens(const Batch& batch, const Pass& pass, VisualTap*) const override {
    torch::Tensor seen;
    {
      at::NoGradGuard no_grad;  // the tower is frozen and carries no adapter
      seen = vision_(batch.pixels.to(compute_type()), pass);
    }
    return second_(activate(activation_, first_(norm_(seen), pass)), pass).flatten(0, 1);
  }

  int64_t tile_side() const { return vision_.shape.rows() / vision_.fold; }
  int64_t tile_width() const { return vision_.shape.columns() / vision_.fold; }
  int64_t tile_tokens() const { return tile_side() * tile_width(); }

  int64_t image_tokens(const ProcessedImages& images, size_t index) const override {
    return images.layout.at(index) * tile_tokens();
  }

  PictureCells picture_cells(const Batch& batch, int64_t image) const override {
    check(batch.tile_grid.defined(), "attention maps need the rows and columns of every picture's tiles");
    check(image < batch.tile_grid.size(0), "there are more visual tokens than pictures account for");
    const int64_t* tiles = batch.tile_grid.data_ptr<int64_t>() + 2 * image;
    const int64_t rows = tiles[0], across = tiles[1], whole = rows * across * tile_tokens();
    PictureCells out{{0, whole, rows * tile_side(), across * tile_width(), {}}, whole};
    if (rows * across == 1) return out;
    out.tokens += tile_tokens();  // the thumbnail
    // Tokens come tile by tile; cells are rows of the large grid.
    for (int64_t i = 0; i < whole; ++i) {
      const int64_t tile = i / tile_tokens(), y = i % tile_tokens() / tile_width(), x = i % tile_width();
      out.cells.cell.push_back((tile / across * tile_side() + y) * across * tile_width() +
                               tile % across * tile_width() + x);
    }
    return out;
  }

  void each_vision_weight(const std::function<void(torch::Tensor&)>& visit) override {
    vision_.each([&](torch::Tensor& weight) { visit(weight); });
    for (auto* t : {&norm_.weight, &norm_.bias, &first_.weight, &first_.bias, &second_.weight, &second_.bias})
      visit(*t);
  }
  std::vector<AdapterSite> vision_sites() override {
    return {{"model.multi_modal_projector.linear_1", &first_}, {"model.multi_modal_projector.linear_2", &second_}};
  }

 private:
  InternVit vision_;
  LayerNorm norm_;
  Linear first_, second_;
  Activation activation_ = Activation::gelu;
};

}  // namespace

std::unique_ptr<Backbone> make_internvl_backbone(const ModelFolder& folder) {
  return std::make_unique<InternVl>(folder);
}

}  // namespace asr
