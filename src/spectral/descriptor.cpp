#include "spectral/descriptor.h"

#include "base/error.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

void check_shapes(const torch::Tensor& attention, const torch::Tensor& weights, const FrequencyPlane& plane) {
  check(attention.dim() == 6, "attention has shape ", shape_text(attention.sizes()),
        "; expected [B, L, heads, T, H, W]");
  check(attention.numel() > 0, "attention is empty: shape ", shape_text(attention.sizes()));
  check(attention.scalar_type() == at::kFloat || attention.scalar_type() == at::kDouble,
        "attention must be float32 or float64");
  check(weights.dim() == 2 && weights.size(0) == attention.size(0) && weights.size(1) == attention.size(3),
        "token weights have shape ", shape_text(weights.sizes()), " but attention has ", attention.size(0),
        " samples of ", attention.size(3), " tokens");
  check(attention.size(4) == plane.height && attention.size(5) == plane.width, "attention grid is ", attention.size(4),
        "x", attention.size(5), " but the encoder was made for ", plane.height, "x", plane.width);
}

// On the CPU, as the training loop has its masks: a dozen operators on a few hundred numbers would cost more than the
// rest of the loss. chosen(b, t) and usable(b, t) say what the masks hold.
template <class Chosen, class Usable>
torch::Tensor token_weights_of(int64_t batch, int64_t tokens, const Chosen& chosen, const Usable& usable) {
  const auto out = torch::empty({batch, tokens}, at::kDouble);
  for (int64_t b = 0; b < batch; ++b) {
    double* weight = out.data_ptr<double>() + b * tokens;
    int64_t count = 0, all = 0;
    for (int64_t t = 0; t < tokens; ++t)
      if (usable(b, t)) count += chosen(b, t), ++all;
    check(all > 0, "sample ", b, " has no valid token; every sample needs at least one");
    const double share = 1 / static_cast<double>(count > 0 ? count : all);
    for (int64_t t = 0; t < tokens; ++t) weight[t] = usable(b, t) && (count == 0 || chosen(b, t)) ? share : 0;
  }
  return out;
}

bool cpu_bools(const torch::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kBool;
}

}  // namespace

torch::Tensor token_weights(const torch::Tensor& functional, const torch::Tensor& valid) {
  check(functional.dim() == 2 && functional.sizes() == valid.sizes(), "functional ", shape_text(functional.sizes()),
        " and valid ", shape_text(valid.sizes()), " must both be [B, T]");
  if (cpu_bools(functional) && cpu_bools(valid)) {
    const auto f = functional.contiguous(), v = valid.contiguous();
    const bool *chosen = f.data_ptr<bool>(), *usable = v.data_ptr<bool>();
    const int64_t tokens = v.size(1);
    const auto in = [tokens](const bool* mask) { return [=](int64_t b, int64_t t) { return mask[b * tokens + t]; }; };
    return token_weights_of(v.size(0), tokens, in(chosen), in(usable));
  }
  for (const auto* mask : {&functional, &valid})
    check(!mask->is_floating_point() || mask->isnan().any().item<bool>() == false,
          "a token mask holds NaN; use 0 and 1");
  const auto usable = valid.ne(0);
  const auto chosen = functional.ne(0).logical_and(usable);
  const auto fallback = chosen.any(1, /*keepdim=*/true).logical_not().logical_and(usable);
  const auto mask = chosen.logical_or(fallback).to(at::kDouble);
  const auto count = mask.sum(1, /*keepdim=*/true);
  const auto empty = count.eq(0).flatten().nonzero();
  check(empty.numel() == 0, "sample ", empty.numel() ? empty[0].item<int64_t>() : 0,
        " has no valid token; every sample needs at least one");
  return mask / count;
}

torch::Tensor token_weights_at(const torch::Tensor& functional, const torch::Tensor& rows) {
  if (!cpu_bools(functional) || !rows.is_cpu())
    return token_weights(functional.gather(1, rows.clamp_min(0)), rows.ge(0));
  check(
      rows.dim() == 2 && rows.scalar_type() == at::kLong && functional.dim() == 2 && functional.size(0) == rows.size(0),
      "functional ", shape_text(functional.sizes()), " and rows ", shape_text(rows.sizes()),
      " must be [B, N] and [B, T] of int64");
  const auto f = functional.contiguous(), r = rows.contiguous();
  const bool* mask = f.data_ptr<bool>();
  const int64_t *at = r.data_ptr<int64_t>(), tokens = r.size(1), width = f.size(1);
  const auto usable = [=](int64_t b, int64_t t) { return at[b * tokens + t] >= 0; };
  const auto chosen = [=](int64_t b, int64_t t) {
    const int64_t position = at[b * tokens + t];
    check(position < width, "a row at position ", position, " of ", width, " tokens");
    return mask[b * width + position];
  };
  return token_weights_of(r.size(0), tokens, chosen, usable);
}

SpectralEncoder::SpectralEncoder(int64_t height, int64_t width, const SpectralOptions& options,
                                 Implementation implementation)
    : options_(options), implementation_(implementation), plane_(make_frequency_plane(height, width, options)) {
  // The fused tables grow with grid x bins; a grid that no vision model has takes the reference instead.
  const bool fits = height * width * (options.radial_bins + options.angular_bins) <= (int64_t(1) << 24);
  check(fits || implementation != Implementation::fused, "grid of ", height, "x", width,
        " with these bins is too large for the fused implementation");
  if (fits && implementation != Implementation::reference) fused_ = make_fused_plan(plane_, options);
}

bool SpectralEncoder::use_fused(const torch::Tensor& attention) const {
  check(implementation_ != Implementation::fused || attention.is_cpu(),
        "the fused implementation runs on the CPU; use automatic or reference");
  return fused_ && attention.is_cpu();
}

torch::Tensor SpectralEncoder::descriptor(const torch::Tensor& attention, const torch::Tensor& weights) const {
  check_shapes(attention, weights, plane_);
  if (use_fused(attention)) return descriptor_fused(attention, weights, fused_);
  return encode_reference(attention, weights, plane_, options_).descriptor;
}

SpectrumDetails SpectralEncoder::details(const torch::Tensor& attention, const torch::Tensor& weights) const {
  at::NoGradGuard no_grad;
  check_shapes(attention, weights, plane_);
  if (use_fused(attention)) return details_fused(attention, weights, *fused_);
  return encode_reference(attention, weights, plane_, options_);
}

torch::Tensor SpectralEncoder::maps(const torch::Tensor& attention, const torch::Tensor& weights) const {
  check_shapes(attention, weights, plane_);
  return maps_reference(attention, weights, options_);
}

torch::Tensor radial_part(const torch::Tensor& descriptor, const SpectralOptions& options) {
  return descriptor.narrow(1, 0, options.radial_bins);
}

torch::Tensor angular_part(const torch::Tensor& descriptor, const SpectralOptions& options) {
  return descriptor.narrow(1, options.radial_bins, options.angular_bins);
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
