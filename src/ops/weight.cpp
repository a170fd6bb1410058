#include "ops/weight.h"

#include "base/error.h"
#include "ops/dispatch.h"
#include "ops/weight_products.h"
#include "tensor/torch_version.h"

namespace asr {
namespace {

constexpr int kFirstWithFp8 = 89;  // compute capability
constexpr Types kUpTo16 = {at::kHalf, at::kBFloat16};

}  // namespace

WeightFormat weight_format_named(const std::string& name) {
  for (const auto format : {WeightFormat::plain, WeightFormat::fp8, WeightFormat::nf4})
    if (name == enum_name(format)) return format;
  fail("weight format '", name, "' is unknown; use plain, fp8 or nf4");
}

torch::Tensor unpacked_nf4(const Weight& weight, at::ScalarType type) {
  constexpr Kernels kernels{{}, {}, kUpToSingle};
  const bool kernel = path_for(kernels, weight.data.device(), type) == Path::cuda;
  return kernel ? unpacked_nf4_cuda(weight, type) : unpacked_nf4_reference(weight, type);
}

Fp8Facts fp8_facts(at::Device device) {
  Fp8Facts out;
  out.in_library = ASR_FLOAT8;
  out.kernels = has_cuda_kernels();
  out.capability = device.is_cuda() && out.kernels ? cuda::compute_capability() : 0;
  out.multiplies = out.capability >= kFirstWithFp8 && multiplies_fp8(device);
  return out;
}

std::string missing_for_fp8(const Fp8Facts& facts) {
  const char* instead = "; use plain, or nf4 to save memory";
  if (!facts.in_library) return cat("base_precision=fp8 needs libtorch 2.5 or newer", instead);
  if (!facts.kernels) return cat("base_precision=fp8 needs a program with CUDA kernels (built where nvcc is)", instead);
  if (facts.capability < kFirstWithFp8)
    return cat("base_precision=fp8 needs a GPU with float8, of compute capability 8.9 or newer; this one has ",
               facts.capability / 10, ".", facts.capability % 10, instead);
  if (!facts.multiplies)
    return cat("base_precision=fp8: this libtorch has no products of float8 for a GPU of compute capability ",
               facts.capability / 10, ".", facts.capability % 10, instead);
  return "";
}

bool has_fp8(at::Device device) {
  return device.is_cuda() && missing_for_fp8(fp8_facts(device)).empty();
}

Fp8Rows fp8_rows(const torch::Tensor& x) {
#if ASR_FLOAT8
  if (has_fp8(x.device())) {
    constexpr Kernels kernels{{}, {}, kUpTo16};
    const int64_t room = x.size(-1) * static_cast<int64_t>(x.element_size());
    if (path_for(kernels, x) == Path::cuda && in_vectors(x, x.size(-1)) && room <= cuda::kLaunchRoom)
      return fp8_rows_cuda(x);
    const auto rows = fp8_rows_reference(x);
    return {rows.data.to(at::kFloat8_e4m3fn), rows.scale};
  }
#endif
  return fp8_rows_reference(x);
}

Weight packed_fp8(const torch::Tensor& numbers) {
  const auto rows = fp8_rows(numbers.contiguous()), turned = fp8_rows(numbers.t().contiguous());
  Weight out;
  out.format = WeightFormat::fp8;
  out.data = rows.data;
  out.scale = rows.scale;
  out.turned = turned.data;
  out.turned_scale = turned.scale;
  return out;
}

Weight in_format(const torch::Tensor& numbers, WeightFormat format) {
  switch (format) {
    case WeightFormat::plain:
      return numbers;
    case WeightFormat::fp8:
      return packed_fp8(numbers);
    case WeightFormat::nf4:
      return packed_nf4(numbers);
  }
  fail("weight format ", static_cast<int>(format), " is unknown; use plain, fp8 or nf4");
}

torch::Tensor values_of(const Weight& weight, at::ScalarType type) {
  switch (weight.format) {
    case WeightFormat::plain:
      check(!weight.scale.defined(), "a plain weight has no scale; divide it out or name the format");
      return weight.data.to(type);
    case WeightFormat::fp8:
      return (weight.data.to(at::kFloat) * weight.scale).to(type);
    case WeightFormat::nf4:
      return unpacked_nf4(weight, type);
  }
  fail("weight format ", static_cast<int>(weight.format), " is unknown to the products; use plain");
}

}  // namespace asr
