// Activation functions by the names that config.json files use, and the two-layer MLP around one.
#pragma once

#include <torch/types.h>

#include <string>

#include "nn/linear.h"
#include "nn/weights.h"

namespace asr {

enum class Activation { gelu, gelu_tanh, quick_gelu, silu, relu };

Activation activation_named(const std::string& name);  // "gelu" is the one with erf
torch::Tensor activate(Activation activation, const torch::Tensor& x);

// down(activation(up x)), both with bias.
struct Mlp {
  Linear up, down;
  Activation activation = Activation::gelu;

  torch::Tensor operator()(const torch::Tensor& x, const Pass& pass) const {
    return down(activate(activation, up(x, pass)), pass);
  }
};

struct MlpShape {
  int64_t width = 0, inner = 0;
  Activation activation = Activation::gelu;
};

// From <up>.weight, <up>.bias and the same of <down>.
Mlp take_mlp(Weights& weights, const std::string& up, const std::string& down, const MlpShape& shape);

}  // namespace asr
