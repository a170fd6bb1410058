#include <algorithm>

#include "ops/mean_tokens.h"
#include "tensor/record.h"

namespace asr {
namespace {

// Which tokens of a sample count, those of the mask or all, and for how much each.
struct Counted {
  const bool* mask;
  float share;
  bool operator[](int64_t t) const { return !mask || mask[t]; }
};

Counted counted(const torch::Tensor& mask, int64_t sample, int64_t tokens) {
  if (!mask.defined()) return {nullptr, 1 / static_cast<float>(tokens)};
  const bool* from = mask.data_ptr<bool>() + sample * tokens;
  return {from, 1 / static_cast<float>(std::max<int64_t>(1, std::count(from, from + tokens, true)))};
}

}  // namespace

// A few rows of numbers: threads would take longer to wake.
torch::Tensor mean_tokens_cpu(const torch::Tensor& x, const torch::Tensor& mask) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto from = x.stride(2) == 1 ? x : x.contiguous(), used = mask.defined() ? mask.contiguous() : mask;
  const int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2), sample = from.stride(0), row = from.stride(1);
  const auto out = torch::empty({batch, width}, x.options().requires_grad(false));
  const float* in = from.data_ptr<float>();
  float* mean = out.data_ptr<float>();
  for (int64_t b = 0; b < batch; ++b) {
    const auto m = counted(used, b, tokens);
    std::fill(mean, mean + width, 0.0f);
    for (int64_t t = 0; t < tokens; ++t) {
      if (!m[t]) continue;
      const float* token = in + b * sample + t * row;
      for (int64_t i = 0; i < width; ++i) mean[i] += token[i];
    }
    for (int64_t i = 0; i < width; ++i) mean[i] *= m.share;
    mean += width;
  }
  if (with_grad)
    record("fused mean", {x}, {out},
           [used, batch, tokens, width](const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
             const auto grad = grads[0].contiguous(), spread = torch::empty({batch, tokens, width}, grad.options());
             const float* pull = grad.data_ptr<float>();
             float* to = spread.data_ptr<float>();
             for (int64_t b = 0; b < batch; ++b) {
               const auto m = counted(used, b, tokens);
               for (int64_t t = 0; t < tokens; ++t) {
                 const float share = m[t] ? m.share : 0;
                 for (int64_t i = 0; i < width; ++i) to[i] = pull[i] * share;
                 to += width;
               }
               pull += width;
             }
             return {spread};
           });
  return out;
}

}  // namespace asr
