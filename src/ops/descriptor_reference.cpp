// The plain graph: one ATen operator a line of the definition. Slow and obvious on purpose; the oracle of
// every other path, and the one that runs on CUDA.
#include "ops/descriptor.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

torch::Tensor guarded(const torch::Tensor& sum, const DescriptorForm& o) {
  return o.eps_add ? sum + o.eps : sum.clamp_min(o.eps);
}

template <class Value>
torch::Tensor table(const std::vector<Value>& values, const at::TensorOptions& options) {
  return torch::tensor(values, at::CPU(at::kDouble)).to(options);
}

torch::Tensor index_table(const std::vector<int64_t>& values, const at::Device& device) {
  return torch::tensor(values, at::kLong).to(device);
}

std::vector<int64_t> half_plane_index(int64_t height, int64_t width) {
  std::vector<int64_t> out;
  for (int64_t u = 0; u < height; ++u)
    for (int64_t v = 0; v < width; ++v) out.push_back(half_plane_entry(u, v, height, width));
  return out;
}

torch::Tensor power_plane(const torch::Tensor& map, const DescriptorForm& o) {
  const auto wave = at::view_as_real(at::fft_rfft2(map, none, {-2, -1}, o.unitary ? "ortho" : "backward"));
  const auto half = wave.square().sum(-1).flatten(-2);  // [B, J, H * (W/2+1)]
  return half.index_select(-1, index_table(half_plane_index(o.height, o.width), map.device()));
}

// [H*W, bins] of bin weights, so that a histogram is one matrix product.
torch::Tensor bin_matrix(const DescriptorForm& o, bool radial, const at::TensorOptions& options) {
  const auto cells = static_cast<int64_t>(o.radius.size());
  auto out = torch::zeros({cells, radial ? o.radial_bins : o.angular_bins}, at::kDouble);
  auto entry = out.accessor<double, 2>();
  for (int64_t i = 0; i < cells; ++i) {
    if (radial)
      entry[i][o.radial_bin[i]] = o.radial_weight[i];
    else
      entry[i][o.angular_bin[i]] = o.angular_weight[i];
  }
  return out.to(options);
}

torch::Tensor find_peak(const torch::Tensor& power, const DescriptorForm& o) {
  at::NoGradGuard no_grad;
  auto eligible = power.detach();
  if (!o.peak_at_dc) {
    eligible = eligible.clone();
    eligible.select(-1, 0).fill_(-1);
  }
  const auto threshold = eligible.amax(-1, /*keepdim=*/true) * (1 - 1e-9);
  const auto index = at::arange(power.size(-1), power.options().dtype(at::kLong));
  return at::where(eligible.ge(threshold), index, at::full_like(index, power.size(-1) - 1)).amin(-1);  // [B, J]
}

torch::Tensor second_moment(const torch::Tensor& variance, bool deviation) {
  if (!deviation) return variance;
  const auto positive = variance.gt(0);
  return at::where(positive, at::where(positive, variance, at::ones_like(variance)).sqrt(), at::zeros_like(variance));
}

// Whether all layer-heads of a sample see the same on the tokens used, [B, 1]. Asked of the input, bit for bit: what
// is computed from equal heads may differ, since a matrix product may round its rows differently (those
// left over when rows are taken several at a time, for one).
torch::Tensor heads_are_equal(const torch::Tensor& attention, const torch::Tensor& weights) {
  at::NoGradGuard no_grad;
  const auto heads = attention.flatten(1, 2);  // [B, J, T, H, W]
  const auto unused = weights.to(heads.device()).le(0).view({weights.size(0), 1, weights.size(1), 1, 1});
  return heads.eq(heads.narrow(1, 0, 1)).logical_or(unused).flatten(1).all(1, /*keepdim=*/true);
}

// Mean and second moment over layer-heads. Equal heads have spread 0 exactly, and no gradient from it.
torch::Tensor head_moments(const torch::Tensor& head, const torch::Tensor& equal, bool deviation) {
  const auto first = head.narrow(1, 0, 1), shifted = head - first, middle = shifted.mean(1, /*keepdim=*/true);
  const auto mean = (first + middle).squeeze(1);
  const auto variance = (shifted - middle).square().mean(1);
  return at::cat({mean, second_moment(at::where(equal, at::zeros_like(variance), variance), deviation)}, -1);
}

}  // namespace

int64_t half_plane_entry(int64_t u, int64_t v, int64_t height, int64_t width) {
  const int64_t columns = width / 2 + 1, mirror_u = (height - u) % height, mirror_v = (width - v) % width;
  int64_t row = v < columns ? u : mirror_u;
  const int64_t column = v < columns ? v : mirror_v;
  if (v == mirror_v) row = std::min(u, mirror_u);  // both lie in this column: take the first
  return row * columns + column;
}

torch::Tensor maps_reference(const torch::Tensor& attention, const torch::Tensor& weights, const DescriptorForm& o) {
  const auto w =
      weights.to(attention.options().requires_grad(false)).view({weights.size(0), 1, 1, weights.size(1), 1, 1});
  auto tokens = attention;
  // Unused tokens may hold anything, NaN too; a product with weight 0 would let it through.
  if (w.eq(0).any().item<bool>()) tokens = at::where(w.gt(0), tokens, torch::zeros({}, w.options()));
  if (o.token_norm) tokens = tokens / guarded(tokens.sum({-2, -1}, /*keepdim=*/true), o);
  const auto map = (tokens * w).sum(3).flatten(1, 2);  // [B, J, H, W]
  return map / guarded(map.sum({-2, -1}, /*keepdim=*/true), o);
}

SpectrumDetails spectrum_reference(const torch::Tensor& attention, const torch::Tensor& weights,
                                   const DescriptorForm& o) {
  SpectrumDetails out;
  const auto options = attention.options().requires_grad(false);
  out.map = maps_reference(attention, weights, o);
  const auto power = power_plane(out.map, o);  // [B, J, HW]
  const auto radial = power.matmul(bin_matrix(o, true, options));
  const auto angular = power.matmul(bin_matrix(o, false, options));
  const auto r = radial / guarded(radial.sum(-1, true), o);
  const auto d = angular / guarded(angular.sum(-1, true), o);
  const auto a = d / guarded(d.mean(-1, true), o);

  out.peak = find_peak(power, o);
  const auto peak_radius = table(o.radius, options).index_select(0, out.peak.flatten()).view_as(out.peak);
  const auto peak_angle = table(o.angle, options).index_select(0, out.peak.flatten()).view_as(out.peak);
  auto peak_power = power.gather(-1, out.peak.unsqueeze(-1)).squeeze(-1);
  if (o.peak_fraction) peak_power = peak_power / guarded(power.sum(-1), o);

  out.head_descriptor =
      at::cat({r, d, a, peak_radius.unsqueeze(-1), peak_angle.unsqueeze(-1), peak_power.unsqueeze(-1)}, -1);
  out.descriptor = head_moments(out.head_descriptor, heads_are_equal(attention, weights), o.deviation);
  out.power = power.view_as(out.map);
  return out;
}

}  // namespace asr
