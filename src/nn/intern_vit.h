// The InternVL vision tower: layers whose halves are scaled by learnt vectors, then a pixel shuffle that folds blocks
// of neighbouring patches into one token. The projector is the backbone's.
#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "nn/vision_parts.h"

namespace asr {

using AnyNorm = std::variant<LayerNorm, RmsNorm>;

struct InternLayer {
  AnyNorm attention_norm, mlp_norm;
  Linear q, k, v, o;
  RmsNorm q_norm, k_norm;                    // over all heads together; without weights where the model has none
  torch::Tensor attention_scale, mlp_scale;  // [width]
  Mlp mlp;
};

class InternVit {
 public:
  TowerShape shape;
  int64_t feature_layer = 0;  // the hidden state that is used: 0 enters the first layer
  int64_t fold = 2;           // sides of the blocks of patches that become one token

  Linear patches;
  torch::Tensor class_token, positions;  // [width], [1 + grid, width] or undefined
  std::vector<InternLayer> layers;       // as many as the feature layer needs
  LayerNorm final_norm;                  // without weights where the model has none

  InternVit() = default;
  // `config` is the whole config.json of an InternVL model, `weights` stands below the tower's prefix.
  InternVit(const nlohmann::json& config, Weights weights);

  int64_t width() const { return shape.width * fold * fold; }

  // [B, C, H, W] -> [B, tokens, width]; images of another size than the tower's get interpolated positions.
  // `states`, where asked for, gets those before the pixel shuffle, the class token first.
  torch::Tensor operator()(const torch::Tensor& pixels, const Pass& pass, torch::Tensor* states = nullptr) const;

  // The linears of its attention, named below `prefix` as transformers names them.
  std::vector<AdapterSite> sites(const std::string& prefix);
  bool adapted() const;  // whether one of them carries an expert

  template <class F>
  void each(F&& f) {
    each_weight(f, patches, class_token, positions, final_norm.weight, final_norm.bias);
    for (auto& l : layers) {
      std::visit([&](auto& norm) { each_weight(f, norm); }, l.attention_norm);
      std::visit([&](auto& norm) { each_weight(f, norm); }, l.mlp_norm);
      each_weight(f, l.q, l.k, l.v, l.o, l.q_norm.weight, l.k_norm.weight, l.attention_scale, l.mlp_scale, l.mlp);
    }
  }
};

// The pixel shuffle: [B, H, W, C] -> [B, H / fold, W / fold, fold * fold * C], the patches of a block row by row.
torch::Tensor fold_blocks(const torch::Tensor& x, int64_t fold);

}  // namespace asr
