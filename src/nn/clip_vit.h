// The CLIP vision tower as LLaVA uses it: features are hidden states of chosen layers, often the last but one, so that
// layers after the highest chosen one are never computed.
#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "nn/clip_layer.h"
#include "nn/vision_parts.h"

namespace asr {

class ClipVit {
 public:
  TowerShape shape;
  std::vector<int64_t> features;  // hidden states that make up the result: 0 enters the first layer, n leaves layer n
  bool keep_class = false;        // the class token's row stays in the result

  Linear patches;
  torch::Tensor class_token, positions;  // [width], [1 + grid, width]
  LayerNorm first_norm;
  std::vector<ClipLayer> layers;  // as many as the features need

  ClipVit() = default;
  // `config` is the whole config.json of a LLaVA model, `weights` stands below the tower's prefix. Every tensor of the
  // tower is taken, those of layers that are not computed too.
  ClipVit(const nlohmann::json& config, Weights weights);

  int64_t width() const { return shape.width * static_cast<int64_t>(features.size()); }
  int64_t tokens() const { return shape.rows() * shape.columns() + keep_class; }

  // [B, C, H, W] -> [B, tokens, width]. `states`, where asked for, gets those of the last layer that is computed, the
  // class token first: [B, 1 + grid, width of the tower].
  torch::Tensor operator()(const torch::Tensor& pixels, const Pass& pass, torch::Tensor* states = nullptr) const;

  // The linears of its attention, named below `prefix` as transformers names them.
  std::vector<AdapterSite> sites(const std::string& prefix);
  bool adapted() const;  // whether one of them carries an expert

  template <class F>
  void each(F&& f) {
    each_weight(f, patches, class_token, positions, first_norm);
    for (auto& l : layers) l.each(f);
  }
};

}  // namespace asr
