// A plain vision transformer: patches, learnt positions, layer norms before attention and MLP.
#pragma once

#include <torch/types.h>

#include <vector>

#include "nn/linear.h"

namespace asr {

struct VitConfig {
  int64_t image = 64, patch = 8, layers = 3, width = 128, heads = 4, mlp = 256;
  int64_t grid() const { return image / patch; }
};

struct VitLayer {
  LayerNorm attention_norm, mlp_norm;
  Linear qkv, o, up, down;
};

class Vit {
 public:
  VitConfig config;
  Linear patches;           // [width, 3 * patch * patch]
  torch::Tensor positions;  // [grid * grid, width]
  std::vector<VitLayer> layers;
  LayerNorm final_norm;

  torch::Tensor operator()(const torch::Tensor& pixels,
                           const Pass& pass) const;  // [B, 3, H, W] -> [B, grid * grid, width]

  std::vector<AdapterSite> sites(const std::string& prefix);  // the linears of its attention
  bool adapted() const;                                       // whether one of them carries an expert
};

}  // namespace asr
