#include "nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/layer_kernels.h"

#if __has_include(<ATen/ops/scaled_dot_product_attention.h>)
#define ASR_HAVE_SDPA 1
#endif

namespace asr {
namespace {

torch::Tensor wide(const torch::Tensor& x, int64_t group) {
  return group == 1 ? x : x.repeat_interleave(group, 1);
}

torch::Tensor visible_keys(const torch::Tensor& key_mask, int64_t queries, bool causal) {  // [B, 1, T or 1, S]
  const int64_t keys = key_mask.size(1);
  const auto visible = key_mask.view({-1, 1, 1, keys});
  if (!causal) return visible;
  const auto key = at::arange(keys, key_mask.options().dtype(at::kLong)),
             query = at::arange(keys - queries, keys, key.options());
  return visible.logical_and(key.view({1, 1, 1, keys}).le(query.view({1, 1, queries, 1})));
}

#ifdef ASR_HAVE_SDPA
torch::Tensor attend_library(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& key_mask, bool causal) {
  const int64_t group = q.size(1) / k.size(1);
  const auto hidden = visible_keys(key_mask, q.size(2), causal).logical_not();
  // Large and finite, in half precision too: a row without keys then stays free of NaN.
  const double low = q.scalar_type() == at::kHalf ? -3e4 : -1e9;
  const auto bias = torch::zeros(hidden.sizes(), q.options().requires_grad(false)).masked_fill_(hidden, low);
  return at::scaled_dot_product_attention(q, wide(k, group), wide(v, group),
                                          bias.expand({q.size(0), q.size(1), q.size(2), k.size(2)}));
}
#endif

}  // namespace

torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& key_mask, bool causal) {
  if (has_kernel(q) && has_kernel(k) && has_kernel(v)) return attend_fused(q, k, v, key_mask, causal);
#ifdef ASR_HAVE_SDPA
  if (q.is_cuda() && q.scalar_type() != at::kDouble) return attend_library(q, k, v, key_mask, causal);
#endif
  return attend_reference(q, k, v, key_mask, causal);
}

torch::Tensor attend_reference(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& key_mask, bool causal) {
  const int64_t group = q.size(1) / k.size(1);
  auto scores = q.matmul(wide(k, group).transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  // A padded query may see no key at all; a large finite number keeps its row, which nobody reads, free of NaN.
  scores = scores.masked_fill(visible_keys(key_mask, q.size(2), causal).logical_not(), -1e9);  // [B, heads, T, S]
  return scores.softmax(-1).matmul(wide(v, group));
}

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}
torch::Tensor join_heads(const torch::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
}

}  // namespace asr
