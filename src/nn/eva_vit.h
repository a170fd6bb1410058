// The EVA-CLIP vision tower of InstructBLIP: class token, patches with bias, queries, keys and values as one product,
// a layer norm at the end.
#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "nn/vision_parts.h"

namespace asr {

struct EvaLayer {
  LayerNorm attention_norm, mlp_norm;
  Linear qkv, o;
  Mlp mlp;
};

class EvaVit {
 public:
  TowerShape shape;
  Linear patches;
  torch::Tensor class_token, positions;  // [width], [1 + grid, width]
  std::vector<EvaLayer> layers;
  LayerNorm final_norm;

  EvaVit() = default;
  // `config` is the whole config.json of an InstructBLIP model, `weights` stands below the tower's prefix.
  EvaVit(const nlohmann::json& config, Weights weights);

  // [B, 3, H, W] -> [B, 1 + N, width], the class token first. Images of another size than the tower's are an error
  // unless positions may be interpolated.
  torch::Tensor operator()(const torch::Tensor& pixels, const Pass& pass, bool interpolate = false) const;

  // The linears of its attention, named below `prefix` as transformers names them.
  std::vector<AdapterSite> sites(const std::string& prefix);
  bool adapted() const;  // whether one of them carries an expert

  template <class F>
  void each(F&& f) {
    each_weight(f, patches, class_token, positions, final_norm);
    for (auto& l : layers) each_weight(f, l.attention_norm, l.mlp_norm, l.qkv, l.o, l.mlp);
  }
};

}  // namespace asr
