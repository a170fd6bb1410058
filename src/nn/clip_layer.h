// A layer of CLIP's towers, which are alike for pictures and texts: norms before attention and before the MLP.
#pragma once

#include <torch/types.h>

#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/vision_parts.h"
#include "nn/weights.h"

namespace asr {

struct ClipLayerShape {
  int64_t width = 0, heads = 0, mlp = 0;
  double eps = 1e-5;
  Activation activation = Activation::quick_gelu;
};

struct ClipLayer {
  int64_t heads = 1;
  LayerNorm attention_norm, mlp_norm;
  Linear q, k, v, o;
  Mlp mlp;

  torch::Tensor operator()(const torch::Tensor& x, bool causal, const Pass& pass) const;  // [B, T, width]

  template <class F>
  void each(F& f) {
    each_weight(f, attention_norm, mlp_norm, q, k, v, o, mlp);
  }
};

ClipLayer take_clip_layer(Weights weights, const ClipLayerShape& shape);

}  // namespace asr
