#include "spectral/descriptor.h"

#include "base/error.h"

namespace asr {
namespace {

DescriptorForm form_of(const FrequencyPlane& plane, const SpectralOptions& o) {
  DescriptorForm out;
  out.height = plane.height;
  out.width = plane.width;
  out.radial_bins = o.radial_bins;
  out.angular_bins = o.angular_bins;
  out.radius = plane.radius;
  out.angle = plane.angle;
  out.radial_bin = plane.radial_bin;
  out.angular_bin = plane.angular_bin;
  for (int64_t i = 0; i < plane.height * plane.width; ++i) {
    out.radial_weight.push_back(plane.radial_weight(i, o));
    out.angular_weight.push_back(plane.angular_weight(i, o));
  }
  out.eps = o.eps;
  out.eps_add = o.eps_mode == EpsMode::add;
  out.token_norm = o.token_norm == Switch::yes;
  out.unitary = o.fft_norm == FftNorm::ortho;
  out.peak_at_dc = o.peak_dc == PeakDc::include;
  out.peak_fraction = o.peak_power == PeakPower::fraction;
  out.deviation = o.second_moment == SecondMoment::std;
  return out;
}

}  // namespace

SpectralEncoder::SpectralEncoder(int64_t height, int64_t width, const SpectralOptions& options,
                                 Implementation implementation)
    : options_(options),
      plane_(make_frequency_plane(height, width, options)),
      plan_(make_descriptor_plan(form_of(plane_, options), implementation)) {}

torch::Tensor SpectralEncoder::descriptor(const torch::Tensor& attention, const torch::Tensor& weights) const {
  const auto together = spectral_descriptor(attention, weights, plan_);
  if (options_.heads == Heads::average) return together;
  return at::cat({together, heads(attention, weights).flatten(1)}, 1);
}

torch::Tensor SpectralEncoder::heads(const torch::Tensor& attention, const torch::Tensor& weights) const {
  const int64_t samples = attention.size(0), count = attention.size(1) * attention.size(2);
  // Each layer-head as a sample of one head, whose mean over heads it is.
  const auto single =
      attention.reshape({samples * count, 1, 1, attention.size(3), attention.size(4), attention.size(5)});
  const auto seen = spectral_descriptor(single, weights.repeat_interleave(count, 0), plan_);  // [B J, D]
  return seen.narrow(1, 0, options_.head_dim()).reshape({samples, count, options_.head_dim()});
}

SpectrumDetails SpectralEncoder::details(const torch::Tensor& attention, const torch::Tensor& weights) const {
  auto out = spectrum_details(attention, weights, plan_);
  if (options_.heads == Heads::kept) out.descriptor = at::cat({out.descriptor, out.head_descriptor.flatten(1)}, 1);
  return out;
}

torch::Tensor SpectralEncoder::maps(const torch::Tensor& attention, const torch::Tensor& weights) const {
  return spectrum_maps(attention, weights, plan_);
}

torch::Tensor radial_part(const torch::Tensor& descriptor, const SpectralOptions& options) {
  return descriptor.narrow(1, 0, options.radial_bins);
}

torch::Tensor angular_part(const torch::Tensor& descriptor, const SpectralOptions& options) {
  return descriptor.narrow(1, options.radial_bins, options.angular_bins);
}

torch::Tensor attention_entropy(const torch::Tensor& map) {
  return at::special_entr(map).sum({-2, -1}).mean(1);
}

void check_attention(const torch::Tensor& attention, const torch::Tensor& weights) {
  at::NoGradGuard no_grad;
  const auto name = [&](const torch::Tensor& bad, const char* what) {
    const auto found = bad.nonzero();
    if (found.numel() == 0) return;
    const auto at = found[0];
    fail("attention of sample ", at[0].item<int64_t>(), ", layer ", at[1].item<int64_t>(), ", head ",
         at[2].item<int64_t>(), " ", what);
  };
  name(attention.isfinite().logical_not(), "holds NaN or infinite values");
  name(attention.lt(0), "holds negative values; attention must be >= 0");
  const auto sums =
      attention.sum({4, 5}) * weights.to(attention.options()).view({weights.size(0), 1, 1, weights.size(1)});
  name(sums.sum(3).isfinite().logical_not(), "is so large that its sum overflows");
  name(sums.sum(3).eq(0), "is all zero on the tokens used; a map without mass has no spectrum");
}

}  // namespace asr
