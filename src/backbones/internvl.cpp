// InternVL2 to 3: a picture is cut into tiles (and, where there are several, a thumbnail of the whole), each seen by
// InternViT and folded to a quarter of its patches. The tiles lie row-major on one large grid; the thumbnail is left
// out unless it is all there is.
#include "backbones/internvl_layout.h"
#include "backbones/pretrained.h"
#include "base/error.h"
#include "nn/activation.h"
#include "nn/intern_vit.h"
#include "nn/model_config.h"

namespace asr {
namespace {

class InternVl final : public PretrainedBackbone {
 public:
  explicit InternVl(const InternVlLayout& layout)
      : PretrainedBackbone(layout.folder, layout.renames),
        thumbnail_(layout.thumbnail),
        transposed_(layout.transposed),
        packed_(layout.packed),
        packed_text_(layout.packed_text) {
    const ModelConfig config(folder_.config, folder_.config_path);
    auto weights = weights_of(folder_, layout.renames);
    unpack_internvl(layout, weights);
    if (layout.own_head && weights.has("lm_head.weight")) folder_.config["tie_word_embeddings"] = false;
    vision_ = InternVit(folder_.config, weights.below("model.vision_tower."));
    load_text(weights);
    auto projector = weights.below("model.multi_modal_projector.");
    norm_ = projector.layer_norm("layer_norm", vision_.width(), 1e-5);
    first_ = projector.linear("linear_1", width(), vision_.width(), true);
    second_ = projector.linear("linear_2", width(), width(), true);
    activation_ = activation_named(config.text("projector_hidden_act", "gelu"));
    weights.finish();
    set_tile(layout.tile);
    load_processors(/*pictures=*/true);
    prompt_ = layout.prompt;
    image_token_ = layout.image_token;
    // The authors' files say the token's number nowhere else.
    if (folder_.type != "internvl" && has_tokenizer()) image_token_ = tokenizer().id_of(prompt_.image);
    if (!layout.end_token.empty()) add_end_token(layout.end_token);
  }

  // InternLM2's attention.wqkv and the authors' tower's attn.qkv, on which adapters of others are.
  PackedModule packed_module(const std::string& module) const override {
    const auto ends_with = [&](const std::string& end) {
      return module.size() >= end.size() && module.compare(module.size() - end.size(), end.size(), end) == 0;
    };
    if (packed_ && ends_with(".attention.qkv")) {
      const auto tower = module.substr(0, module.size() - 3);
      const int64_t rows = vision_.shape.width;
      return {1, {{tower + "q_proj", rows}, {tower + "k_proj", rows}, {tower + "v_proj", rows}}};
    }
    if (!packed_text_ || !ends_with("self_attn.wqkv")) return {};
    const auto place = module.substr(0, module.size() - 4);
    const auto& c = text_.decoder.config;
    return {c.kv_heads,
            {{place + "q_proj", c.heads / c.kv_heads * c.head()},
             {place + "k_proj", c.head()},
             {place + "v_proj", c.head()}}};
  }

  bool vision_adapted() const override { return vision_.adapted(); }

 protected:
  int64_t tower_width() const override { return vision_.shape.width; }

  torch::Tensor visual_tokens(const Batch& batch, const Pass& whole, VisualLook* look) const override {
    const auto pass = picture_pass(batch, whole, tile_tokens());
    torch::Tensor seen, states;
    {
      const at::AutoGradMode record(at::GradMode::is_enabled() && vision_.adapted());  // the tower itself is frozen
      seen = vision_(batch.pixels.to(compute_type()), pass, &states);
    }
    if (look && look->states) {
      const std::vector<int64_t> tokens(static_cast<size_t>(seen.size(0)), tile_tokens());
      look->tower = tower_states(states, /*class_token=*/true, picture_samples(batch, tokens), batch.size());
    }
    if (transposed_) {
      const int64_t rows = batch.pixels.size(2) / vision_.shape.patch[0] / vision_.fold;
      seen = seen.view({seen.size(0), rows, -1, seen.size(2)}).transpose(1, 2).flatten(1, 2);
    }
    return second_(activate(activation_, first_(norm_(seen), pass)), pass).flatten(0, 1);
  }

  int64_t tile_tokens() const { return tile_rows_ * tile_columns_; }

  int64_t image_tokens(const ProcessedImages& images, size_t index) const override {
    return images.layout.at(index) * tile_tokens();
  }

  PictureCells picture_cells(const Batch& batch, int64_t image) const override {
    check(batch.tile_grid.defined(), "attention maps need the rows and columns of every picture's tiles");
    check(image < batch.tile_grid.size(0), "there are more visual tokens than pictures account for");
    const int64_t* tiles = batch.tile_grid.data_ptr<int64_t>() + 2 * image;
    const int64_t rows = tiles[0], across = tiles[1], whole = rows * across * tile_tokens();
    PictureCells out{{0, whole, rows * tile_rows_, across * tile_columns_, {}}, whole};
    if (rows * across == 1 && !transposed_) return out;
    if (rows * across > 1 && thumbnail_) out.tokens += tile_tokens();
    // Tokens come tile by tile; cells are rows of the large grid.
    for (int64_t i = 0; i < whole; ++i) {
      const int64_t tile = i / tile_tokens(), inside = i % tile_tokens();
      const int64_t y = transposed_ ? inside % tile_rows_ : inside / tile_columns_;
      const int64_t x = transposed_ ? inside / tile_rows_ : inside % tile_columns_;
      out.cells.cell.push_back((tile / across * tile_rows_ + y) * across * tile_columns_ +
                               tile % across * tile_columns_ + x);
    }
    return out;
  }

  void each_vision_weight(const std::function<void(torch::Tensor&)>& visit) override {
    vision_.each([&](torch::Tensor& weight) { visit(weight); });
    for (auto* t : {&norm_.weight, &norm_.bias, &first_.weight, &first_.bias, &second_.weight, &second_.bias})
      visit(*t);
  }
  std::vector<AdapterSite> vision_sites() override {
    auto out = vision_.sites("model.vision_tower.");
    out.push_back({"model.multi_modal_projector.linear_1", &first_, SitePart::projector});
    out.push_back({"model.multi_modal_projector.linear_2", &second_, SitePart::projector});
    return out;
  }

 private:
  // A side of 0 pixels: as the tower was made.
  void set_tile(int64_t side) {
    const auto& shape = vision_.shape;
    tile_rows_ = (side ? side / shape.patch[0] : shape.rows()) / vision_.fold;
    tile_columns_ = (side ? side / shape.patch[1] : shape.columns()) / vision_.fold;
    check(!side || (tile_rows_ * vision_.fold * shape.patch[0] == side &&
                    tile_columns_ * vision_.fold * shape.patch[1] == side),
          folder_.config_path, ": 'force_image_size' is ", side, ", which is no multiple of the ",
          vision_.fold * shape.patch[0], " pixels of a visual token");
  }

  InternVit vision_;
  int64_t tile_rows_ = 0, tile_columns_ = 0;  // visual tokens
  bool thumbnail_ = true, transposed_ = false;
  bool packed_ = false, packed_text_ = false;  // see InternVlLayout
  LayerNorm norm_;
  Linear first_, second_;
  Activation activation_ = Activation::gelu;
};

}  // namespace

std::unique_ptr<Backbone> make_internvl_backbone(const ModelFolder& folder) {
  return std::make_unique<InternVl>(internvl_layout(folder));
}

}  // namespace asr
