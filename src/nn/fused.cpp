#include "nn/fused.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "nn/layer_kernels.h"
#include "tensor/record.h"

#if __has_include(<ATen/ops/rms_norm.h>)
#define ASR_HAVE_RMS_NORM 1
#endif

namespace asr {
namespace {

using variable_list = std::vector<torch::Tensor>;

const float* pointer(const torch::Tensor& x) {
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
  const float *from = pointer(x), *more = pointer(added), *w = pointer(weight);
  float *sum = out.sum.data_ptr<float>(), *y = out.y.data_ptr<float>(), *inverse = out.inverse.data_ptr<float>();
  at::parallel_for(0, rows, rows_per_task(width), [&](int64_t begin, int64_t end) {
    const int64_t at = begin * width;
    layer_kernels().row.rms_forward(from + at, more ? more + at : nullptr, w, static_cast<float>(eps), end - begin,
                                    static_cast<int>(width), sum + at, y + at, inverse + begin);
  });
  return out;
}

// The weight's gradient is summed in a fixed number of parts, so that its bits do not depend on threads.
constexpr int64_t kParts = 16;

struct NormGrads {
  torch::Tensor x, weight;
};

NormGrads norm_grads(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& inverse,
                     const torch::Tensor& grad, const torch::Tensor& carried, bool weight_too) {
  const int64_t width = x.size(-1), rows = x.numel() / width, share = (rows + kParts - 1) / kParts;
  const auto options = x.options().requires_grad(false);
  NormGrads out{torch::empty(x.sizes(), options), {}};
  const auto parts = weight_too ? torch::zeros({kParts, width}, options) : torch::Tensor();
  const float *from = pointer(x), *w = pointer(weight), *f = pointer(inverse), *g = pointer(grad),
              *more = pointer(carried);
  float *to = out.x.data_ptr<float>(), *sums = weight_too ? parts.data_ptr<float>() : nullptr;
  const int64_t grain = std::max<int64_t>(1, rows_per_task(width) / std::max<int64_t>(1, share));
  at::parallel_for(0, kParts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = std::min(rows, part * share), count = std::min(rows, first + share) - first,
                    at = first * width;
      layer_kernels().row.rms_backward(from + at, w, f + first, g + at, more ? more + at : nullptr, count,
                                       static_cast<int>(width), to + at, sums ? sums + part * width : nullptr);
    }
  });
  if (weight_too) out.weight = parts.sum(0);
  return out;
}

torch::Tensor fused_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  const bool with_grad = needs_gradient({x, weight}), weight_too = weight.requires_grad();
  at::NoGradGuard no_grad;
  const auto from = x.detach().contiguous(), w = weight.detach().contiguous();
  const auto normed = norm_rows(from, {}, w, eps);
  if (with_grad)
    record("fused norm", {x, weight}, {normed.y},
           [from, w, inverse = normed.inverse, weight_too](const variable_list& grads) -> variable_list {
             const auto out = norm_grads(from, w, inverse, grads[0].contiguous(), {}, weight_too);
             return {out.x, out.weight};
           });
  return normed.y;
}

std::pair<torch::Tensor, torch::Tensor> fused_add_norm(const torch::Tensor& x, const torch::Tensor& added,
                                                       const torch::Tensor& weight, double eps) {
  const bool with_grad = needs_gradient({x, added, weight}), weight_too = weight.requires_grad();
  at::NoGradGuard no_grad;
  const auto w = weight.detach().contiguous();
  const auto normed = norm_rows(x.contiguous(), added.contiguous(), w, eps);
  if (with_grad)
    record("fused norm", {x, added, weight}, {normed.sum, normed.y},
           [sum = normed.sum.detach(), w, inverse = normed.inverse,
            weight_too](const variable_list& grads) -> variable_list {
             if (!grads[1].defined()) return {grads[0], grads[0], torch::Tensor()};
             const auto out = norm_grads(sum, w, inverse, grads[1].contiguous(),
                                         grads[0].defined() ? grads[0].contiguous() : grads[0], weight_too);
             return {out.x, out.x, out.weight};
           });
  return {normed.sum, normed.y};
}

torch::Tensor fused_gate(const torch::Tensor& gate, const torch::Tensor& up) {
  const bool with_grad = needs_gradient({gate, up});
  at::NoGradGuard no_grad;
  const auto g = gate.detach().contiguous(), u = up.detach().contiguous();
  const auto out = torch::empty(g.sizes(), g.options());
  const float *from = pointer(g), *factor = pointer(u);
  float* to = out.data_ptr<float>();
  at::parallel_for(0, g.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
    layer_kernels().row.gate_forward(from + begin, factor + begin, end - begin, to + begin);
  });
  if (with_grad)
    record("fused gate", {gate, up}, {out}, [g, u](const variable_list& grads) -> variable_list {
      const auto grad = grads[0].contiguous();
      const auto to_g = torch::empty(grad.sizes(), grad.options()), to_u = torch::empty(grad.sizes(), grad.options());
      const float *gates = pointer(g), *ups = pointer(u), *pull = pointer(grad);
      float *gate_grad = to_g.data_ptr<float>(), *up_grad = to_u.data_ptr<float>();
      at::parallel_for(0, grad.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
        layer_kernels().row.gate_backward(gates + begin, ups + begin, pull + begin, end - begin, gate_grad + begin,
                                          up_grad + begin);
      });
      return {to_g, to_u};
    });
  return out;
}

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

// A few rows of numbers: threads would take longer to wake.
torch::Tensor fused_mean(const torch::Tensor& x, const torch::Tensor& mask) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto from = x.stride(2) == 1 ? x : x.contiguous(), used = mask.defined() ? mask.contiguous() : mask;
  const int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2), sample = from.stride(0), row = from.stride(1);
  const auto out = torch::empty({batch, width}, x.options().requires_grad(false));
  const float* in = pointer(from);
  float* mean = out.data_ptr<float>();
  for (int64_t b = 0; b < batch; ++b, mean += width) {
    const auto m = counted(used, b, tokens);
    std::fill(mean, mean + width, 0.0f);
    for (int64_t t = 0; t < tokens; ++t) {
      if (!m[t]) continue;
      const float* token = in + b * sample + t * row;
      for (int64_t i = 0; i < width; ++i) mean[i] += token[i];
    }
    for (int64_t i = 0; i < width; ++i) mean[i] *= m.share;
  }
  if (with_grad)
    record("fused mean", {x}, {out}, [used, batch, tokens, width](const variable_list& grads) -> variable_list {
      const auto grad = grads[0].contiguous(), spread = torch::empty({batch, tokens, width}, grad.options());
      const float* pull = pointer(grad);
      float* to = spread.data_ptr<float>();
      for (int64_t b = 0; b < batch; ++b, pull += width) {
        const auto m = counted(used, b, tokens);
        for (int64_t t = 0; t < tokens; ++t, to += width) {
          const float share = m[t] ? m.share : 0;
          for (int64_t i = 0; i < width; ++i) to[i] = pull[i] * share;
        }
      }
      return {spread};
    });
  return out;
}

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  if (has_kernel(x) && has_kernel(weight) && x.numel() > 0) return fused_norm(x, weight, eps);
#ifdef ASR_HAVE_RMS_NORM
  if (x.is_cuda()) return at::rms_norm(x, {x.size(-1)}, {}, eps) * weight;  // rounded as the reference is
#endif
  return rms_norm_reference(x, weight, eps);
}

torch::Tensor rms_norm_reference(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  // In float32 at least and rounded before the weight, as transformers has it: a mean of squares in bfloat16 is off by
  // a part in 256.
  const auto type = at::promote_types(x.scalar_type(), at::kFloat);
  const double width = static_cast<double>(x.size(-1));
  // sqrt(mean of squares + eps), from operators that read x as it is: on a GPU every one of them costs a start.
  const auto length = at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, /*keepdim=*/true, type);
  const auto scale = at::hypot(length * (1 / std::sqrt(width)), at::scalar_tensor(std::sqrt(eps), at::dtype(type)));
  return (x / scale).to(x.scalar_type()) * weight;
}

std::pair<torch::Tensor, torch::Tensor> add_rms_norm(const torch::Tensor& x, const torch::Tensor& added,
                                                     const torch::Tensor& weight, double eps) {
  if (!has_kernel(x) || !has_kernel(added) || !has_kernel(weight) || x.numel() == 0 || x.sizes() != added.sizes()) {
    const auto sum = x + added;
    return {sum, rms_norm(sum, weight, eps)};
  }
  return fused_add_norm(x, added, weight, eps);
}

torch::Tensor gated_silu(const torch::Tensor& gate, const torch::Tensor& up) {
  if (!has_kernel(gate) || !has_kernel(up) || gate.sizes() != up.sizes()) return gated_silu_reference(gate, up);
  return fused_gate(gate, up);
}

torch::Tensor gated_silu_reference(const torch::Tensor& gate, const torch::Tensor& up) {
  return at::silu(gate) * up;
}

torch::Tensor mean_tokens(const torch::Tensor& x, const torch::Tensor& mask) {
  if (!has_kernel(x) || x.numel() == 0) return mean_tokens_reference(x, mask);
  return fused_mean(x, mask);
}

torch::Tensor mean_tokens_reference(const torch::Tensor& x, const torch::Tensor& mask) {
  if (!mask.defined()) return x.mean(1);
  const auto weight = mask.to(x.scalar_type()).unsqueeze(-1);
  return (x * weight).sum(1) / weight.sum(1).clamp_min(1);
}

}  // namespace asr
