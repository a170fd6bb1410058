#include "ops/descriptor.h"

#include "tensor/tensor_io.h"

namespace asr {
namespace {

void check_spectrum_shapes(const torch::Tensor& attention, const torch::Tensor& weights, const DescriptorForm& form) {
  check(attention.dim() == 6, "attention has shape ", shape_text(attention.sizes()),
        "; expected [B, L, heads, T, H, W]");
  check(attention.numel() > 0, "attention is empty: shape ", shape_text(attention.sizes()));
  check(kSingleAndDouble.has(attention.scalar_type()), "attention must be float32 or float64");
  check(weights.dim() == 2 && weights.size(0) == attention.size(0) && weights.size(1) == attention.size(3),
        "token weights have shape ", shape_text(weights.sizes()), " but attention has ", attention.size(0),
        " samples of ", attention.size(3), " tokens");
  check(attention.size(4) == form.height && attention.size(5) == form.width, "attention grid is ", attention.size(4),
        "x", attention.size(5), " but the encoder was made for ", form.height, "x", form.width);
}

Path descriptor_path(const torch::Tensor& attention, const DescriptorPlan& plan) {
  constexpr Kernels kernels{kSingleAndDouble, {}, kSingle};
  const auto path = path_for(plan.implementation, path_for(kernels, attention));
  if (path == Path::cpu) return plan.tables ? path : Path::reference;
  if (path == Path::cuda)
    return plan.on_device && descriptor_fits_cuda(*plan.on_device, attention) ? path : Path::reference;
  return Path::reference;
}

}  // namespace

DescriptorPlan make_descriptor_plan(DescriptorForm form, Implementation implementation) {
  // The kernel's tables grow with grid x bins; a grid that no vision model has takes the reference instead.
  const bool fits = form.height * form.width * (form.radial_bins + form.angular_bins) <= (int64_t(1) << 24);
  check(fits || implementation != Implementation::fused, "grid of ", form.height, "x", form.width,
        " with these bins is too large for the fused implementation");
  DescriptorPlan out{std::move(form), implementation, nullptr, nullptr};
  if (!fits || implementation == Implementation::reference) return out;
  out.tables = make_descriptor_tables(out.form);
  if (has_cuda_kernels()) out.on_device = make_descriptor_on_device(out.form);
  return out;
}

torch::Tensor spectral_descriptor(const torch::Tensor& attention, const torch::Tensor& weights,
                                  const DescriptorPlan& plan) {
  check_spectrum_shapes(attention, weights, plan.form);
  const auto path = descriptor_path(attention, plan);
  if (path == Path::cpu) return descriptor_cpu(attention, weights, plan.tables);
  if (path == Path::cuda) return descriptor_cuda(attention, weights, plan.on_device);
  return spectrum_reference(attention, weights, plan.form).descriptor;
}

SpectrumDetails spectrum_details(const torch::Tensor& attention, const torch::Tensor& weights,
                                 const DescriptorPlan& plan) {
  at::NoGradGuard no_grad;
  check_spectrum_shapes(attention, weights, plan.form);
  if (descriptor_path(attention, plan) == Path::cpu) return spectrum_cpu(attention, weights, *plan.tables);
  return spectrum_reference(attention, weights, plan.form);
}

torch::Tensor spectrum_maps(const torch::Tensor& attention, const torch::Tensor& weights, const DescriptorPlan& plan) {
  check_spectrum_shapes(attention, weights, plan.form);
  return maps_reference(attention, weights, plan.form);
}

}  // namespace asr
