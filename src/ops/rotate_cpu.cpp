#include <ATen/Parallel.h>

#include "ops/layer_kernels.h"
#include "ops/rotate.h"
#include "tensor/record.h"

namespace asr {
namespace {

torch::Tensor turn(const torch::Tensor& x, const torch::Tensor& cosine, const torch::Tensor& sine, float direction) {
  const auto from = x.stride(3) == 1 ? x : x.contiguous();
  const int64_t batch = x.size(0), heads = x.size(1), tokens = x.size(2), width = x.size(3);
  const auto out = torch::empty({batch, tokens, heads, width}, x.options().requires_grad(false));
  const int64_t step = cosine.size(0) == 1 ? 0 : cosine.stride(0);
  const float *c = cosine.data_ptr<float>(), *s = sine.data_ptr<float>(), *start = from.data_ptr<float>();
  float* to = out.data_ptr<float>();
  at::parallel_for(0, batch * tokens, rows_per_task(heads * width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / tokens, t = i % tokens, angle = b * step + t * (width / 2);
      layer_kernels().row.rotate({
          .x = start + b * from.stride(0) + t * from.stride(2),
          .head_stride = from.stride(1),
          .heads = static_cast<int>(heads),
          .width = static_cast<int>(width),
          .cosine = c + angle,
          .sine = s + angle,
          .direction = direction,
          .y = to + i * heads * width,
      });
    }
  });
  return out.transpose(1, 2);
}

}  // namespace

torch::Tensor rotate_cpu(const torch::Tensor& x, const RotaryTable& table) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto out = turn(x, table.cosine, table.sine, 1);
  if (with_grad)
    record("fused rotation", {x}, {out},
           [cosine = table.cosine, sine = table.sine](const std::vector<torch::Tensor>& grads) {
             return std::vector<torch::Tensor>{turn(grads[0], cosine, sine, -1)};
           });
  return out;
}

}  // namespace asr
