#include <ATen/Parallel.h>

#include <algorithm>

#include "ops/layer_kernels.h"
#include "ops/rms_norm.h"
#include "tensor/record.h"

namespace asr {
namespace {

const float* numbers(const torch::Tensor& x) {
  return x.defined() ? x.data_ptr<float>() : nullptr;
}

struct Normed {
  torch::Tensor sum, y, inverse;
};

Normed norm_rows(const torch::Tensor& x, const torch::Tensor& added, const torch::Tensor& weight, double eps) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const auto options = x.options().requires_grad(false);
  Normed out{added.defined() ? torch::empty(x.sizes(), options) : x, torch::empty(x.sizes(), options),
             torch::empty({rows}, options)};
  const float *from = numbers(x), *more = numbers(added), *w = numbers(weight);
  float *sum = out.sum.data_ptr<float>(), *y = out.y.data_ptr<float>(), *inverse = out.inverse.data_ptr<float>();
  at::parallel_for(0, rows, rows_per_task(width), [&](int64_t begin, int64_t end) {
    const int64_t at = begin * width;
    layer_kernels().row.rms_forward({
        .rows = end - begin,
        .width = static_cast<int>(width),
        .eps = static_cast<float>(eps),
        .x = from + at,
        .added = more ? more + at : nullptr,
        .weight = w,
        .sum = sum + at,
        .y = y + at,
        .inverse = inverse + begin,
    });
  });
  return out;
}

// The weight's gradient is summed in a fixed number of parts, so that its bits do not depend on threads.
constexpr int64_t kParts = 16;

// What the backward pass needs of the forward pass.
struct SavedNorm {
  torch::Tensor x, weight, inverse;  // x: with what was added
  bool weight_too;                   // its gradient is wanted
};

struct NormGrads {
  torch::Tensor x, weight;
};

// `carried`: what reaches x beside the norm, or undefined.
NormGrads norm_grads(const SavedNorm& saved, const torch::Tensor& grad, const torch::Tensor& carried) {
  const auto& x = saved.x;
  const int64_t width = x.size(-1), rows = x.numel() / width, share = (rows + kParts - 1) / kParts;
  const auto options = x.options().requires_grad(false);
  NormGrads out{torch::empty(x.sizes(), options), {}};
  const auto parts = saved.weight_too ? torch::zeros({kParts, width}, options) : torch::Tensor();
  const float *from = numbers(x), *w = numbers(saved.weight), *f = numbers(saved.inverse), *g = numbers(grad),
              *more = numbers(carried);
  float *to = out.x.data_ptr<float>(), *sums = saved.weight_too ? parts.data_ptr<float>() : nullptr;
  const int64_t grain = std::max<int64_t>(1, rows_per_task(width) / std::max<int64_t>(1, share));
  at::parallel_for(0, kParts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = std::min(rows, part * share), count = std::min(rows, first + share) - first,
                    at = first * width;
      layer_kernels().row.rms_backward({
          .rows = count,
          .width = static_cast<int>(width),
          .x = from + at,
          .weight = w,
          .inverse = f + first,
          .grad_y = g + at,
          .carried = more ? more + at : nullptr,
          .grad_x = to + at,
          .grad_weight = sums ? sums + part * width : nullptr,
      });
    }
  });
  if (saved.weight_too) out.weight = parts.sum(0);
  return out;
}

}  // namespace

torch::Tensor rms_norm_cpu(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  const bool with_grad = needs_gradient({x, weight}), weight_too = weight.requires_grad();
  at::NoGradGuard no_grad;
  const auto from = x.detach().contiguous(), w = weight.detach().contiguous();
  const auto normed = norm_rows(from, {}, w, eps);
  if (with_grad)
    record("fused norm", {x, weight}, {normed.y},
           [saved = SavedNorm{from, w, normed.inverse, weight_too}](
               const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
             const auto out = norm_grads(saved, grads[0].contiguous(), {});
             return {out.x, out.weight};
           });
  return normed.y;
}

std::pair<torch::Tensor, torch::Tensor> add_rms_norm_cpu(const torch::Tensor& x, const torch::Tensor& added,
                                                         const torch::Tensor& weight, double eps) {
  const bool with_grad = needs_gradient({x, added, weight}), weight_too = weight.requires_grad();
  at::NoGradGuard no_grad;
  const auto w = weight.detach().contiguous();
  const auto normed = norm_rows(x.contiguous(), added.contiguous(), w, eps);
  if (with_grad)
    record("fused norm", {x, added, weight}, {normed.sum, normed.y},
           [saved = SavedNorm{normed.sum.detach(), w, normed.inverse, weight_too}](
               const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
             if (!grads[1].defined()) return {grads[0], grads[0], torch::Tensor()};
             const auto carried = grads[0].defined() ? grads[0].contiguous() : grads[0];
             const auto out = norm_grads(saved, grads[1].contiguous(), carried);
             return {out.x, out.x, out.weight};
           });
  return {normed.sum, normed.y};
}

}  // namespace asr
