#include "nn/attention.h"

#include <cmath>
#include <limits>

namespace asr {

torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& key_mask, bool causal) {
  const int64_t batch = q.size(0), queries = q.size(2), keys = k.size(2), group = q.size(1) / k.size(1);
  const auto wide = [group](const torch::Tensor& x) { return group == 1 ? x : x.repeat_interleave(group, 1); };
  auto scores = q.matmul(wide(k).transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));  // [B, heads, T, S]
  auto visible = key_mask.view({batch, 1, 1, keys});
  if (causal) {
    const auto key = at::arange(keys, key_mask.options().dtype(at::kLong)),
               query = at::arange(keys - queries, keys, key.options());
    visible = visible.logical_and(key.view({1, 1, 1, keys}).le(query.view({1, 1, queries, 1})));
  }
  // A padded query may see no key at all; a large finite number keeps its row, which nobody reads, free of NaN.
  scores = scores.masked_fill(visible.logical_not(), -1e9);
  return scores.softmax(-1).matmul(wide(v));
}

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}
torch::Tensor join_heads(const torch::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
}

torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& positions, double theta) {
  const int64_t half = x.size(3) / 2;
  const auto wide = at::TensorOptions().dtype(at::kDouble).device(x.device());
  const auto speed = (at::arange(half, wide) * (-std::log(theta) / static_cast<double>(half))).exp();
  const auto angle = positions.to(at::kDouble).unsqueeze(-1) * speed;  // [B, T, d/2]
  const auto cosine = angle.cos().to(x.scalar_type()).unsqueeze(1), sine = angle.sin().to(x.scalar_type()).unsqueeze(1);
  const auto a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 3);
}

}  // namespace asr
