#include "nn/linear.h"

#include <cmath>

namespace asr {

torch::Tensor Linear::operator()(const torch::Tensor& x, const Pass& pass) const {
  auto y = bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
  if (!pass.experts) return y;
  for (const auto& expert : experts) y = y + at::linear(at::linear(x, expert.a), expert.b) * expert.scale;
  return y;
}

Expert make_expert(const Linear& linear, int64_t rank, double alpha, const at::Generator& generator) {
  const auto options = linear.weight.options().requires_grad(false);
  const int64_t out = linear.weight.size(0), in = linear.weight.size(1);
  // Drawn on the CPU, so that a run starts from the same adapters on every device.
  const auto a = at::randn({rank, in}, generator, at::CPU(at::kFloat)) / std::sqrt(static_cast<double>(in));
  return {a.to(options).requires_grad_(), torch::zeros({out, rank}, options).requires_grad_(),
          alpha / static_cast<double>(rank)};
}

torch::Tensor RmsNorm::operator()(const torch::Tensor& x) const {
  return x * (x.square().mean(-1, /*keepdim=*/true) + eps).rsqrt() * weight;
}

torch::Tensor LayerNorm::operator()(const torch::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, eps);
}

}  // namespace asr
