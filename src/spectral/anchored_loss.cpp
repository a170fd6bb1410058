#include "spectral/anchored_loss.h"

#include "base/error.h"

namespace asr {
namespace {

// Positions of the entries that asr.spectrum matches and that carry a gradient.
torch::Tensor moving_entries(const Options& options) {
  const auto& o = options.spectral;
  auto used = used_dimensions(options.asr.spectrum, o);
  const int64_t radius = o.radial_bins + 2 * o.angular_bins;  // of the peak; its angle follows
  for (const int64_t half : {int64_t(0), o.head_dim()}) used.slice(0, half + radius, half + radius + 2).fill_(0);
  return used.nonzero().squeeze(1);
}

}  // namespace

AnchorWeights anchor_weights(const PrototypeTensors& prototypes, const Options& options,
                             const at::TensorOptions& compute) {
  check(prototypes.size() > 0, "anchors are weighed by stored variances, and the memory is empty");
  AnchorWeights out;
  out.entries = moving_entries(options);
  const auto variance = variances_as_read(prototypes, options).index_select(1, out.entries);
  const double mean = variance.mean().item<double>();
  out.unit = 1 / mean;
  auto precision = mean / variance;
  if (options.asr.metric == AnchorMetric::pooled) precision = precision.mean(0, true);
  if (options.asr.metric == AnchorMetric::identity) precision = torch::ones({1, variance.size(1)}, at::kDouble);
  out.precision = precision.to(compute);
  out.entries = out.entries.to(compute.device());
  return out;
}

torch::Tensor anchored_loss(const AnchorWeights& weights, const AnchoredBatch& batch) {
  if (batch.all <= 0) return (batch.seen * 0).sum();
  const auto way = (batch.seen - batch.anchor).index_select(1, weights.entries);
  return (batch.p * way.square()).sum() * (weights.unit / batch.all);
}

}  // namespace asr
