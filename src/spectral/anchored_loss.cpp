#include "spectral/anchored_loss.h"

#include "base/error.h"

namespace asr {
namespace {

// Positions of the entries that asr.spectrum matches and that carry a gradient.
torch::Tensor moving_entries(const Options& options, int64_t numbers) {
  const auto& o = options.spectral;
  auto used = used_dimensions(options.asr.spectrum, o, numbers);
  const int64_t radius = o.radial_bins + 2 * o.angular_bins;  // of the peak; its angle follows
  for (int64_t part = 0; part < numbers; part += o.head_dim()) used.slice(0, part + radius, part + radius + 2).fill_(0);
  return used.nonzero().squeeze(1);
}

}  // namespace

AnchorWeights anchor_weights(const PrototypeTensors& prototypes, const Options& options,
                             const at::TensorOptions& compute) {
  check(prototypes.size() > 0, "anchors are weighed by stored variances, and the memory is empty");
  AnchorWeights out;
  const auto all = variances_as_read(prototypes, options);
  out.entries = moving_entries(options, all.size(1));
  const auto variance = all.index_select(1, out.entries);
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
