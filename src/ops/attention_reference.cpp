#include <cmath>

#include "ops/attention.h"

namespace asr {

// Expanded and copied, not repeated by index: the gradient is then a sum, whose bits do not change on a GPU.
torch::Tensor shared_heads(const torch::Tensor& x, int64_t group) {
  if (group == 1) return x;
  const int64_t batch = x.size(0), heads = x.size(1), tokens = x.size(2), width = x.size(3);
  return x.unsqueeze(2).expand({batch, heads, group, tokens, width}).reshape({batch, heads * group, tokens, width});
}

torch::Tensor visible_keys(const torch::Tensor& key_mask, int64_t queries, bool causal) {  // [B, 1, T or 1, S]
  const int64_t keys = key_mask.size(1);
  const auto visible = key_mask.view({-1, 1, 1, keys});
  if (!causal) return visible;
  const auto key = at::arange(keys, key_mask.options().dtype(at::kLong)),
             query = at::arange(keys - queries, keys, key.options());
  return visible.logical_and(key.view({1, 1, 1, keys}).le(query.view({1, 1, queries, 1})));
}

torch::Tensor attend_reference(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& key_mask, bool causal) {
  const int64_t group = q.size(1) / k.size(1);
  const auto visible = visible_keys(key_mask.defined() ? key_mask : all_keys(k), q.size(2), causal);
  auto scores = q.matmul(shared_heads(k, group).transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  // A padded query may see no key at all; a large finite number keeps its row, which nobody reads, free of NaN.
  scores = scores.masked_fill(visible.logical_not(), -1e9);  // [B, heads, T, S]
  return softmax_rows(scores).to(v.scalar_type()).matmul(shared_heads(v, group));
}

torch::Tensor softmax_rows(const torch::Tensor& scores) {
  return scores.softmax(-1, at::promote_types(scores.scalar_type(), at::kFloat));
}

torch::Tensor all_keys(const torch::Tensor& k) {
  return torch::ones({k.size(0), k.size(2)}, k.options().dtype(at::kBool).requires_grad(false));
}

}  // namespace asr
