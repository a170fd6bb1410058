#include "ops/adapted_linear.h"

namespace asr {

torch::Tensor adapted_linear_reference(const torch::Tensor& x, const LinearMap& map) {
  const auto weight = values_of(map.weight, x.scalar_type());
  auto y = map.bias.defined() ? at::linear(x, weight, map.bias) : at::linear(x, weight);
  for (const auto& expert : map.low_rank) {
    const auto own = expert.dropout ? keyed_dropout_reference(x, *expert.dropout) : x;
    const auto& from = expert.input.defined() ? expert.input : own;
    auto middle = at::linear(from, expert.a);
    if (expert.gate.defined()) middle = middle * expert.gate;
    y = y + at::linear(middle, expert.b) * expert.scale;
  }
  return y;
}

}  // namespace asr
