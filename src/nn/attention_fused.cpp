// Attention as one autograd function around the kernel: nothing of the size of the score matrix is kept or formed. Work
// is spread over samples and key-value heads; each is computed by one thread, so the bits do not depend on threads.
#include <ATen/Parallel.h>

#include <cmath>

#include "nn/attention.h"
#include "nn/layer_kernels.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

using kernel::AttentionInput;
using kernel::Rows;

torch::Tensor dense_rows(const torch::Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

// Laid out as [B, T, heads, d], so that joining the heads is free; seen as [B, heads, T, d].
torch::Tensor token_major(const torch::Tensor& like) {
  return torch::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options().requires_grad(false))
      .transpose(1, 2);
}

template <class Real>
Rows<Real> rows_of(const torch::Tensor& x, int64_t sample, int64_t head) {
  return {x.data_ptr<float>() + sample * x.stride(0) + head * x.stride(1), x.stride(2), x.stride(1)};
}

struct Heads {
  torch::Tensor q, k, v, mask;
  bool causal;

  int64_t samples() const { return k.size(0); }
  int64_t kv_heads() const { return k.size(1); }
  int64_t group() const { return q.size(1) / k.size(1); }
  AttentionInput input(int64_t sample, int64_t head) const {
    return {rows_of<const float>(q, sample, head * group()),
            rows_of<const float>(k, sample, head),
            rows_of<const float>(v, sample, head),
            mask.data_ptr<bool>() + sample * k.size(2),
            static_cast<int>(group()),
            static_cast<int>(q.size(2)),
            static_cast<int>(k.size(2)),
            static_cast<int>(q.size(3)),
            causal,
            static_cast<float>(1 / std::sqrt(static_cast<double>(q.size(3))))};
  }
  // Runs work(input, sample, key-value head, scratch) for every pair of them.
  template <class Work>
  void each(const Work& work) const {
    if (q.numel() == 0 || k.numel() == 0) return;
    const int64_t cost = group() * q.size(2) * k.size(2) * q.size(3);
    const auto size = static_cast<int64_t>(layer_kernels().attention.scratch(input(0, 0)));
    const auto options = q.options().requires_grad(false);
    at::parallel_for(0, samples() * kv_heads(), std::max<int64_t>(1, 100000 / cost), [&](int64_t begin, int64_t end) {
      const auto scratch = torch::empty({size}, options);
      for (int64_t i = begin; i < end; ++i)
        work(input(i / kv_heads(), i % kv_heads()), i / kv_heads(), i % kv_heads(), scratch.data_ptr<float>());
    });
  }
};

struct AttendFunction : torch::autograd::Function<AttendFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& q,
                               const torch::Tensor& k, const torch::Tensor& v, const torch::Tensor& key_mask,
                               bool causal) {
    const Heads heads{dense_rows(q), dense_rows(k), dense_rows(v), key_mask.contiguous(), causal};
    const int64_t group = heads.group(), queries = q.size(2);
    const auto out = token_major(q);
    const auto kept = torch::empty({q.size(0), q.size(1), queries, 2}, q.options().requires_grad(false));
    if (k.numel() == 0) out.zero_();
    heads.each([&](const AttentionInput& in, int64_t sample, int64_t head, float* scratch) {
      layer_kernels().attention.forward(
          in, rows_of<float>(out, sample, head * group),
          kept.data_ptr<float>() + (sample * heads.kv_heads() + head) * group * queries * 2, scratch);
    });
    context->save_for_backward({heads.q, heads.k, heads.v, heads.mask, out, kept});
    context->saved_data["causal"] = causal;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("fused attention");
    const auto saved = context->get_saved_variables();
    const Heads heads{saved[0], saved[1], saved[2], saved[3], context->saved_data["causal"].toBool()};
    const auto &out = saved[4], &kept = saved[5], grad = dense_rows(grads[0]);
    const int64_t group = heads.group(), queries = heads.q.size(2);
    const auto grad_q = token_major(heads.q), grad_k = token_major(heads.k), grad_v = token_major(heads.v);
    if (heads.q.numel() == 0) grad_k.zero_(), grad_v.zero_();
    if (heads.k.numel() == 0) grad_q.zero_();
    heads.each([&](const AttentionInput& in, int64_t sample, int64_t head, float* scratch) {
      layer_kernels().attention.backward(
          in, rows_of<const float>(out, sample, head * group), rows_of<const float>(grad, sample, head * group),
          kept.data_ptr<float>() + (sample * heads.kv_heads() + head) * group * queries * 2,
          rows_of<float>(grad_q, sample, head * group), rows_of<float>(grad_k, sample, head),
          rows_of<float>(grad_v, sample, head), scratch);
    });
    return {grad_q, grad_k, grad_v, torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor attend_fused(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const torch::Tensor& key_mask, bool causal) {
  return AttendFunction::apply(q, k, v, key_mask, causal);
}

}  // namespace asr
