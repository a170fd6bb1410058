#include <algorithm>

#include "ops/stack_rows.h"
#include "tensor/record.h"

namespace asr {

torch::Tensor stack_rows_cpu(const std::vector<torch::Tensor>& layers, int64_t height, int64_t width) {
  const bool with_grad = needs_gradient(layers);
  at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(layers.size()), batch = layers[0].size(0), each = layers[0].numel() / batch;
  const auto& one = layers[0];
  const auto out =
      torch::empty({batch, count, one.size(1), one.size(2), height, width}, one.options().requires_grad(false));
  for (int64_t l = 0; l < count; ++l) {
    const float* from = layers[static_cast<size_t>(l)].data_ptr<float>();
    float* to = out.data_ptr<float>() + l * each;
    for (int64_t b = 0; b < batch; ++b) std::copy(from + b * each, from + (b + 1) * each, to + b * count * each);
  }
  if (with_grad)
    record("stacked rows", layers, {out}, [shape = one.sizes().vec()](const std::vector<torch::Tensor>& grads) {
      auto pulled = grads[0].unbind(1);
      for (auto& grad : pulled) grad = grad.reshape(shape);
      return pulled;
    });
  return out;
}

}  // namespace asr
