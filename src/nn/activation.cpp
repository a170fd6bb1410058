#include "nn/activation.h"

#include <utility>

#include "base/error.h"
#include "ops/quick_gelu.h"

namespace asr {
namespace {

constexpr std::pair<const char*, Activation> names[] = {
    {"gelu", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_new", Activation::gelu_tanh},  // the same formula under an older name
    {"quick_gelu", Activation::quick_gelu},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"relu", Activation::relu},
};

}  // namespace

Activation activation_named(const std::string& name) {
  for (const auto& [known, activation] : names)
    if (name == known) return activation;
  fail("config.json: activation '", name, "' is not supported; use gelu, gelu_pytorch_tanh, quick_gelu, silu or relu");
}

torch::Tensor activate(Activation activation, const torch::Tensor& x) {
  switch (activation) {
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::quick_gelu:
      return quick_gelu(x);
    case Activation::silu:
      return at::silu(x);
    case Activation::relu:
      return at::relu(x);
  }
  fail("an activation without a formula");
}

Mlp take_mlp(Weights& weights, const std::string& up, const std::string& down, const MlpShape& shape) {
  return {weights.linear(up, shape.inner, shape.width, true), weights.linear(down, shape.width, shape.inner, true),
          shape.activation};
}

}  // namespace asr
