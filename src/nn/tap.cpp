#include "nn/tap.h"

#include <cmath>
#include <limits>

namespace asr {

torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& key_mask, bool causal,
                             const TapRequest& request) {
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
  const auto weights = scores.softmax(-1).gather(3, columns.view({batch, 1, 1, V}).expand({batch, heads, T, V}));
  const auto real = request.rows.ge(0).view({batch, 1, T, 1}).logical_and(request.columns.ge(0).view({batch, 1, 1, V}));
  return at::where(real, weights, torch::zeros_like(weights));
}

}  // namespace asr
