// Attention as one autograd function around the kernel: nothing of the size of the score matrix is kept or formed. Work
// is spread over samples and key-value heads; each is computed by one thread, so the bits do not depend on threads.
// With a tap the function has a second result, rows of the weights, whose gradient joins that of the scores: queries
// and keys then receive one gradient from both, and nothing has to be computed again.
#include <ATen/Parallel.h>

#include <cmath>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/layer_kernels.h"
#include "tensor/record.h"

namespace asr {
namespace {

using kernel::AttentionBackward;
using kernel::AttentionInput;
using kernel::AttentionTap;
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

// A request as the kernel reads it; the tensors are seen as [B, heads, T, V].
struct TappedRows {
  torch::Tensor rows, columns, weights, grad;
  int64_t first_row, first_column;

  AttentionTap input(int64_t sample, int64_t head) const {
    return {rows.data_ptr<int64_t>() + sample * rows.stride(0),
            columns.data_ptr<int64_t>() + sample * columns.stride(0),
            static_cast<int>(rows.size(1)),
            static_cast<int>(columns.size(1)),
            static_cast<int>(first_row),
            static_cast<int>(first_column),
            rows_of<float>(weights, sample, head),
            grad.defined() ? rows_of<const float>(grad, sample, head) : Rows<const float>{}};
  }
};

struct HeadPairs {
  torch::Tensor q, k, v, mask;
  bool causal;
  const TappedRows* tap = nullptr;

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
            static_cast<float>(1 / std::sqrt(static_cast<double>(q.size(3)))),
            nullptr};
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
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sample = i / kv_heads(), head = i % kv_heads();
        auto in = input(sample, head);
        const auto tapped = tap ? tap->input(sample, head * group()) : AttentionTap{};
        if (tap) in.tap = &tapped;
        work(in, sample, head, scratch.data_ptr<float>());
      }
    });
  }
};

struct Mixed {
  torch::Tensor out, kept;
};

Mixed attention_forward(const HeadPairs& heads) {
  const auto& q = heads.q;
  const int64_t group = heads.group(), queries = q.size(2);
  const auto out = token_major(q);
  const auto kept = torch::empty({q.size(0), q.size(1), queries, 2}, q.options().requires_grad(false));
  if (heads.k.numel() == 0) out.zero_();
  heads.each([&](const AttentionInput& in, int64_t sample, int64_t head, float* scratch) {
    layer_kernels().attention.forward(in, rows_of<float>(out, sample, head * group),
                                      kept.data_ptr<float>() + (sample * heads.kv_heads() + head) * group * queries * 2,
                                      scratch);
  });
  return {out, kept};
}

struct HeadGrads {
  torch::Tensor q, k, v;
};

HeadGrads attention_backward(const HeadPairs& heads, const Mixed& mixed, const torch::Tensor& grad_out) {
  const auto grad = dense_rows(grad_out);
  const int64_t group = heads.group(), queries = heads.q.size(2);
  const HeadGrads to{token_major(heads.q), token_major(heads.k), token_major(heads.v)};
  if (heads.q.numel() == 0) {
    to.k.zero_();
    to.v.zero_();
  }
  if (heads.k.numel() == 0) to.q.zero_();
  heads.each([&](const AttentionInput& in, int64_t sample, int64_t head, float* scratch) {
    const int64_t first = head * group;  // of the query heads
    const AttentionBackward of{
        .out = rows_of<const float>(mixed.out, sample, first),
        .grad = rows_of<const float>(grad, sample, first),
        .kept = mixed.kept.data_ptr<float>() + (sample * heads.kv_heads() + head) * group * queries * 2,
        .grad_q = rows_of<float>(to.q, sample, first),
        .grad_k = rows_of<float>(to.k, sample, head),
        .grad_v = rows_of<float>(to.v, sample, head),
    };
    layer_kernels().attention.backward(in, of, scratch);
  });
  return to;
}

// The kernel trusts positions.
void check_positions(const torch::Tensor& asked, int64_t first, int64_t limit, const char* what) {
  check(asked.scalar_type() == at::kLong && asked.dim() == 2, "a tap's ", what, " must be int64 [B, count]");
  const int64_t count = asked.size(1);
  check(first < 0 || first + count <= limit, "a tap asks for ", what, " up to ", first + count, " of ", limit);
  for (int64_t b = 0; first < 0 && b < asked.size(0); ++b)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = asked.data_ptr<int64_t>()[b * asked.stride(0) + i];
      check(position < limit, "a tap asks for position ", position, " of ", limit, " ", what);
    }
}

}  // namespace

torch::Tensor attend_cpu(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& key_mask, bool causal) {
  const bool with_grad = needs_gradient({q, k, v});
  at::NoGradGuard no_grad;
  const HeadPairs heads{dense_rows(q.detach()), dense_rows(k.detach()), dense_rows(v.detach()),
                        (key_mask.defined() ? key_mask : all_keys(k)).contiguous(), causal};
  const auto mixed = attention_forward(heads);
  if (with_grad)
    record("fused attention", {q, k, v}, {mixed.out},
           [heads, out = mixed.out.detach(),
            kept = mixed.kept](const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
             const auto to = attention_backward(heads, {out, kept}, grads[0]);
             return {to.q, to.k, to.v};
           });
  return mixed.out;
}

std::pair<torch::Tensor, torch::Tensor> attend_tapped_cpu(const AttentionHeads& of, const AttentionRows& asked) {
  const auto &q = of.q, &k = of.k, &v = of.v;
  check(!of.causal || q.size(2) == k.size(2), "a tap on causal attention needs all positions at once; found ",
        q.size(2), " queries of ", k.size(2), " keys");
  const auto dense = [](const torch::Tensor& x) { return x.stride(1) == 1 ? x : x.contiguous(); };
  TappedRows tap{dense(asked.rows), dense(asked.columns), {}, {}, asked.first_row, asked.first_column};
  check_positions(tap.rows, tap.first_row, q.size(2), "rows");
  check_positions(tap.columns, tap.first_column, k.size(2), "columns");
  const bool with_grad = needs_gradient({q, k, v});
  at::NoGradGuard no_grad;
  const auto weights =
      torch::empty({q.size(0), q.size(1), tap.rows.size(1), tap.columns.size(1)}, q.options().requires_grad(false));
  tap.weights = weights.detach();
  HeadPairs heads{dense_rows(q.detach()),
                  dense_rows(k.detach()),
                  dense_rows(v.detach()),
                  (of.key_mask.defined() ? of.key_mask : all_keys(k)).contiguous(),
                  of.causal,
                  &tap};
  const auto mixed = attention_forward(heads);
  heads.tap = nullptr;  // lives as long as this call alone
  if (with_grad)
    record(
        "fused attention", {q, k, v}, {mixed.out, weights},
        [heads, tap, out = mixed.out.detach(),
         kept = mixed.kept](const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
          auto again = heads;
          auto pulled = tap;
          if (grads[1].defined()) {
            pulled.grad = dense_rows(grads[1]);
            again.tap = &pulled;
          }
          const auto to = attention_backward(again, {out, kept}, grads[0].defined() ? grads[0] : at::zeros_like(out));
          return {to.q, to.k, to.v};
        });
  return {mixed.out, weights};
}

}  // namespace asr
