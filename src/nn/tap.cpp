#include "nn/tap.h"

#include <cmath>

#include "nn/attention.h"
#include "ops/stack_rows.h"

namespace asr {

namespace {

// Finite: a padding row may see no key at all, and though nobody reads it, its gradient would be no number.
constexpr double kHidden = -1e9;

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
  scores = scores.masked_fill(visible.logical_not(), kHidden);
  const auto weights = softmax_rows(scores).narrow(3, request.first_column, V);
  return weights * request.rows.ge(0).to(weights.scalar_type()).view({batch, 1, T, 1});
}

torch::Tensor rows_of_scores(const torch::Tensor& scores, const TapMask& mask) {  // [B, L, heads, T, S]
  auto shape = scores.sizes().vec();
  shape.back() = mask.columns.size(3);
  // Scaled, masked and widened by one operator.
  const auto weights = at::add(mask.bias.unsqueeze(1), scores, mask.scale).softmax(-1);
  return at::where(mask.real.unsqueeze(1), weights.gather(4, mask.columns.unsqueeze(1).expand(shape)), mask.zero);
}

}  // namespace

void TapResult::finish() {
  if (scores.empty()) return;
  all = rows_of_scores(torch::stack(scores, 1), mask);
  layers = all.unbind(1);
  scores.clear();
}

torch::Tensor TapResult::stacked() const {
  return all.defined() ? all : torch::stack(layers, 1);
}

torch::Tensor TapResult::stacked(int64_t height, int64_t width) const {
  if (!all.defined()) return stack_rows(layers, height, width);
  return all.view({all.size(0), all.size(1), all.size(2), all.size(3), height, width});
}

TapMask tap_mask(const torch::Tensor& k, const torch::Tensor& key_mask, bool causal, const TapRequest& request) {
  const int64_t batch = k.size(0), keys = k.size(2), T = request.rows.size(1), V = request.columns.size(1);
  TapMask out;
  out.rows = request.rows.clamp_min(0).view({batch, 1, T, 1});
  out.columns = request.columns.clamp_min(0).view({batch, 1, 1, V});
  auto visible = (key_mask.defined() ? key_mask : all_keys(k)).view({batch, 1, 1, keys});
  if (causal) visible = visible.logical_and(at::arange(keys, out.rows.options()).view({1, 1, 1, keys}).le(out.rows));
  const auto options = k.options().dtype(at::promote_types(k.scalar_type(), at::kFloat)).requires_grad(false);
  out.bias = torch::zeros(visible.sizes(), options).masked_fill_(visible.logical_not(), kHidden);
  out.real = request.rows.ge(0).view({batch, 1, T, 1}).logical_and(request.columns.ge(0).view({batch, 1, 1, V}));
  out.zero = torch::zeros({}, options);
  out.scale = 1 / std::sqrt(static_cast<double>(k.size(3)));
  return out;
}

torch::Tensor tap_scores(const torch::Tensor& q, const torch::Tensor& k, const TapMask& mask) {
  const int64_t batch = q.size(0), heads = q.size(1), width = q.size(3), T = mask.rows.size(2);
  const auto chosen = q.gather(2, mask.rows.expand({batch, heads, T, width}));
  // Queries that share a head of k stand below one another.
  return chosen.view({batch, k.size(1), -1, width}).matmul(k.transpose(2, 3)).view({batch, heads, T, -1});
}

torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& key_mask, bool causal,
                             const TapRequest& request) {
  if (request.first_row >= 0 && request.first_column >= 0)
    return attention_block(q, k, key_mask.defined() ? key_mask : all_keys(k), causal, request);
  const auto mask = tap_mask(k, key_mask, causal, request);
  return rows_of_scores(tap_scores(q, k, mask).unsqueeze(1), mask).squeeze(1);
}

torch::Tensor attend_and_tap(const AttentionHeads& heads, const LayerTap& tap) {
  const auto& [q, k, v, key_mask, causal] = heads;
  if (!tap.request) return attend(q, k, v, key_mask, causal);
  const auto& asked = *tap.request;
  auto& result = *tap.result;
  if (attends_with_rows(heads)) {
    const auto [out, rows] = attend_tapped_cpu(heads, {asked.rows, asked.columns, asked.first_row, asked.first_column});
    result.layers.push_back(rows);
    return out;
  }
  if (asked.first_row >= 0 && asked.first_column >= 0) {
    result.layers.push_back(attention_rows(q, k.repeat_interleave(q.size(1) / k.size(1), 1), key_mask, causal, asked));
  } else {
    if (!result.mask.bias.defined()) result.mask = tap_mask(k, key_mask, causal, asked);
    result.scores.push_back(tap_scores(q, k, result.mask));
  }
  return attend(q, k, v, key_mask, causal);
}

}  // namespace asr
