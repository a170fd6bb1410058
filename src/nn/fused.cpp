#include "nn/fused.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "nn/layer_kernels.h"
#include "tensor/torch_compat.h"

#if __has_include(<ATen/ops/rms_norm.h>)
#define ASR_HAVE_RMS_NORM 1
#endif

namespace asr {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

struct NormFunction : torch::autograd::Function<NormFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& weight,
                               double eps) {
    const auto from = x.contiguous(), w = weight.contiguous();
    const auto normed = norm_rows(from, {}, w, eps);
    context->save_for_backward({from, w, normed.inverse});
    context->saved_data["weight"] = weight.requires_grad();
    return normed.y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivative("fused norm");
    const auto saved = context->get_saved_variables();
    const auto out =
        norm_grads(saved[0], saved[1], saved[2], grads[0].contiguous(), {}, context->saved_data["weight"].toBool());
    return {out.x, out.weight, torch::Tensor()};
  }
};

struct AddNormFunction : torch::autograd::Function<AddNormFunction> {
  static variable_list forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& added,
                               const torch::Tensor& weight, double eps) {
    const auto w = weight.contiguous();
    const auto normed = norm_rows(x.contiguous(), added.contiguous(), w, eps);
    context->save_for_backward({normed.sum, w, normed.inverse});
    context->saved_data["weight"] = weight.requires_grad();
    context->set_materialize_grads(false);
    return {normed.sum, normed.y};
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivative("fused norm");
    if (!grads[1].defined()) return {grads[0], grads[0], torch::Tensor(), torch::Tensor()};
    const auto saved = context->get_saved_variables();
    const auto out =
        norm_grads(saved[0], saved[1], saved[2], grads[1].contiguous(),
                   grads[0].defined() ? grads[0].contiguous() : grads[0], context->saved_data["weight"].toBool());
    return {out.x, out.x, out.weight, torch::Tensor()};
  }
};

struct GateFunction : torch::autograd::Function<GateFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& gate, const torch::Tensor& up) {
    const auto g = gate.contiguous(), u = up.contiguous();
    const auto out = torch::empty(g.sizes(), g.options().requires_grad(false));
    const float *from = pointer(g), *factor = pointer(u);
    float* to = out.data_ptr<float>();
    at::parallel_for(0, g.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
      layer_kernels().row.gate_forward(from + begin, factor + begin, end - begin, to + begin);
    });
    context->save_for_backward({g, u});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivative("fused gate");
    const auto saved = context->get_saved_variables();
    const auto grad = grads[0].contiguous();
    const auto options = grad.options().requires_grad(false);
    const auto gate = torch::empty(grad.sizes(), options), up = torch::empty(grad.sizes(), options);
    const float *g = pointer(saved[0]), *u = pointer(saved[1]), *pull = pointer(grad);
    float *to_gate = gate.data_ptr<float>(), *to_up = up.data_ptr<float>();
    at::parallel_for(0, grad.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
      layer_kernels().row.gate_backward(g + begin, u + begin, pull + begin, end - begin, to_gate + begin,
                                        to_up + begin);
    });
    return {gate, up};
  }
};

float share_of(const bool* mask, int64_t tokens) {
  return 1 / static_cast<float>(std::max<int64_t>(1, std::count(mask, mask + tokens, true)));
}

// A few rows of numbers: threads would take longer to wake.
struct MeanFunction : torch::autograd::Function<MeanFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& mask) {
    const auto from = x.stride(2) == 1 ? x : x.contiguous(), used = mask.contiguous();
    const int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
    const auto out = torch::zeros({batch, width}, x.options().requires_grad(false));
    for (int64_t b = 0; b < batch; ++b) {
      const bool* m = used.data_ptr<bool>() + b * tokens;
      const float* row = from.data_ptr<float>() + b * from.stride(0);
      float *to = out.data_ptr<float>() + b * width, share = share_of(m, tokens);
      for (int64_t t = 0; t < tokens; ++t, row += from.stride(1))
        for (int64_t i = 0; m[t] && i < width; ++i) to[i] += row[i];
      for (int64_t i = 0; i < width; ++i) to[i] *= share;
    }
    context->save_for_backward({used});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivative("fused mean");
    const auto mask = context->get_saved_variables()[0], grad = grads[0].contiguous();
    const int64_t batch = mask.size(0), tokens = mask.size(1), width = grad.size(1);
    const auto out = torch::empty({batch, tokens, width}, grad.options().requires_grad(false));
    float* to = out.data_ptr<float>();
    for (int64_t b = 0; b < batch; ++b) {
      const bool* m = mask.data_ptr<bool>() + b * tokens;
      const float *from = pointer(grad) + b * width, share = share_of(m, tokens);
      for (int64_t t = 0; t < tokens; ++t, to += width)
        for (int64_t i = 0; i < width; ++i) to[i] = m[t] ? from[i] * share : 0;
    }
    return {out, torch::Tensor()};
  }
};

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  if (has_kernel(x) && has_kernel(weight) && x.numel() > 0) return NormFunction::apply(x, weight, eps);
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
  const auto out = AddNormFunction::apply(x, added, weight, eps);
  return {out[0], out[1]};
}

torch::Tensor gated_silu(const torch::Tensor& gate, const torch::Tensor& up) {
  if (!has_kernel(gate) || !has_kernel(up) || gate.sizes() != up.sizes()) return gated_silu_reference(gate, up);
  return GateFunction::apply(gate, up);
}

torch::Tensor gated_silu_reference(const torch::Tensor& gate, const torch::Tensor& up) {
  return at::silu(gate) * up;
}

torch::Tensor mean_tokens(const torch::Tensor& x, const torch::Tensor& mask) {
  if (!has_kernel(x) || x.numel() == 0) return mean_tokens_reference(x, mask);
  return MeanFunction::apply(x, mask.defined() ? mask : torch::ones({x.size(0), x.size(1)}, at::kBool));
}

torch::Tensor mean_tokens_reference(const torch::Tensor& x, const torch::Tensor& mask) {
  if (!mask.defined()) return x.mean(1);
  const auto weight = mask.to(x.scalar_type()).unsqueeze(-1);
  return (x * weight).sum(1) / weight.sum(1).clamp_min(1);
}

}  // namespace asr
