#include "ops/weight_products.h"

#include "tensor/torch_version.h"

namespace asr {
namespace {

// y = x W^T of rows with a scale each on both sides.
void multiply_fp8(const torch::Tensor& y, const Fp8Rows& x, const torch::Tensor& data, const torch::Tensor& scale) {
  auto out = y;
#if ASR_FLOAT8
  if (data.scalar_type() != at::kFloat) {
    // With a scale a row the library promises results in bfloat16 alone.
    auto product = y.scalar_type() == at::kBFloat16 ? out : at::empty(y.sizes(), y.options().dtype(at::kBFloat16));
    at::_scaled_mm_out(product, x.data, data.t(), x.scale, scale.t(), std::nullopt, std::nullopt, at::kBFloat16,
                       /*use_fast_accum=*/true);
    if (!product.is_same(out)) out.copy_(product);
    return;
  }
#endif
  out.copy_(x.data.mm(data.t()) * x.scale * scale.t());
}

bool product_of_ones(at::Device device) {
#if ASR_FLOAT8
  try {
    at::NoGradGuard no_grad;
    constexpr int64_t kSide = 64;
    const auto kind = at::TensorOptions().device(device).dtype(at::kFloat);
    const Fp8Rows ones{torch::ones({kSide, kSide}, kind).to(at::kFloat8_e4m3fn), torch::ones({kSide, 1}, kind)};
    const auto out = torch::zeros({kSide, kSide}, kind.dtype(at::kBFloat16));
    multiply_fp8(out, ones, ones.data, ones.scale);
    return out.eq(kSide).all().item<bool>();
  } catch (const c10::Error&) {
    return false;
  }
#else
  static_cast<void>(device);
  return false;
#endif
}

}  // namespace

bool multiplies_fp8(at::Device device) {
  static const bool tried = product_of_ones(device);
  return tried;
}

Weight for_products(const Weight& weight, at::ScalarType type) {
  if (weight.format == WeightFormat::fp8) return weight;
  return values_of(weight, type).detach();
}

void multiply_by(const torch::Tensor& y, RowFactor& x, const Weight& weight, const torch::Tensor& bias) {
  auto out = y;
  if (weight.format == WeightFormat::fp8) {
    if (!x.fp8) x.fp8 = fp8_rows(x.rows);
    multiply_fp8(y, *x.fp8, weight.data, weight.scale);
    if (bias.defined()) out.add_(bias);
  } else if (bias.defined()) {
    at::addmm_out(out, bias, x.rows, weight.data.t());
  } else {
    at::mm_out(out, x.rows, weight.data.t());
  }
}

void multiply_by_transposed(const torch::Tensor& dx, const torch::Tensor& dy, const Weight& weight, bool accumulate) {
  auto out = dx;
  if (weight.format != WeightFormat::fp8) {
    at::addmm_out(out, dx, dy, weight.data, accumulate ? 1 : 0, 1);
    return;
  }
  const auto pulled = accumulate ? torch::empty(dx.sizes(), dx.options()) : dx;
  multiply_fp8(pulled, fp8_rows(dy), weight.turned, weight.turned_scale);
  if (accumulate) out.add_(pulled);
}

}  // namespace asr
