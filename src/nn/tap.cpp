#include "nn/tap.h"

#include <cmath>
#include <limits>

#include "nn/attention.h"
#include "nn/layer_kernels.h"

namespace asr {

namespace {

// Rows and columns as slices. Padding rows are computed like the others and zeroed.
torch::Tensor attention_block(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& key_mask,
                              bool causal, const TapRequest& request) {
  const int64_t batch = q.size(0), keys = k.size(2), T = request.rows.size(1), V = request.columns.size(1);
  const auto chosen = q.narrow(2, request.first_row, T);
  auto scores =
      chosen.matmul(k.transpose(2, 3)).mul(1 / std::sqrt(static_cast<double>(q.size(3))));  // [B, heads, T, S]
  auto visible = key_mask.view({batch, 1, 1, keys});
  if (causal) {
    const auto key = at::arange(keys, request.rows.options());
    const auto row = at::arange(request.first_row, request.first_row + T, request.rows.options());
    visible = visible.logical_and(key.view({1, 1, 1, keys}).le(row.view({1, 1, T, 1})));
  }
  scores = scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  const auto weights = softmax_rows(scores).narrow(3, request.first_column, V);
  return weights * request.rows.ge(0).to(weights.scalar_type()).view({batch, 1, T, 1});
}

}  // namespace

torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& given_mask,
                             bool causal, const TapRequest& request) {
  const auto key_mask = given_mask.defined() ? given_mask : all_keys(k);
  if (request.first_row >= 0 && request.first_column >= 0) return attention_block(q, k, key_mask, causal, request);
  const int64_t batch = q.size(0), heads = q.size(1), width = q.size(3), keys = k.size(2);
  const auto rows = request.rows.clamp_min(0), columns = request.columns.clamp_min(0);
  const int64_t T = rows.size(1), V = columns.size(1);
  const auto chosen = q.gather(2, rows.view({batch, 1, T, 1}).expand({batch, heads, T, width}));
  auto scores = chosen.matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(width));  // [B, heads, T, S]
  auto visible = key_mask.view({batch, 1, 1, keys});
  if (causal)
    visible =
        visible.logical_and(at::arange(keys, rows.options()).view({1, 1, 1, keys}).le(rows.view({batch, 1, T, 1})));
  scores = scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  const auto weights = softmax_rows(scores).gather(3, columns.view({batch, 1, 1, V}).expand({batch, heads, T, V}));
  const auto real = request.rows.ge(0).view({batch, 1, T, 1}).logical_and(request.columns.ge(0).view({batch, 1, 1, V}));
  return at::where(real, weights, torch::zeros_like(weights));
}

torch::Tensor attend_and_tap(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& key_mask, bool causal, const TapRequest* tap, TapResult* tapped) {
  if (!tap) return attend(q, k, v, key_mask, causal);
  if (has_kernel(q) && has_kernel(k) && has_kernel(v) && q.numel() > 0 && k.numel() > 0) {
    const auto [out, rows] = attend_tapped_fused(q, k, v, key_mask.defined() ? key_mask : all_keys(k), causal, *tap);
    tapped->layers.push_back(rows);
    return out;
  }
  const int64_t group = q.size(1) / k.size(1);
  tapped->layers.push_back(attention_rows(q, group == 1 ? k : k.repeat_interleave(group, 1), key_mask, causal, *tap));
  return attend(q, k, v, key_mask, causal);
}

}  // namespace asr
