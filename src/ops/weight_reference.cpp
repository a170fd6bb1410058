#include "base/error.h"
#include "ops/weight.h"

namespace asr {
namespace {

constexpr int64_t kStretch = 64;  // numbers that share a scale
constexpr double kLargestE4m3 = 448;

// Quantiles of the normal distribution, as QLoRA defines them.
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

torch::Tensor nf4_values(const at::TensorOptions& kind) {
  return torch::tensor(std::vector<float>(std::begin(kNf4), std::end(kNf4)), at::kFloat).to(kind);
}

}  // namespace

Weight packed_nf4(const torch::Tensor& numbers) {
  check(numbers.dim() == 2 && numbers.size(1) % kStretch == 0, "nf4 takes matrices whose rows are whole stretches of ",
        kStretch, " numbers; this one has rows of ", numbers.size(-1));
  at::NoGradGuard no_grad;
  const auto wide = numbers.to(at::kFloat);
  const auto stretches = wide.view({numbers.size(0), -1, kStretch});
  Weight out;
  out.format = WeightFormat::nf4;
  out.scale = stretches.abs().amax(-1);  // [out, in / 64]
  const auto values = nf4_values(wide.options());
  const auto borders = (values.slice(0, 1) + values.slice(0, 0, 15)) / 2;
  const auto scaled = stretches / out.scale.clamp_min(1e-30).unsqueeze(-1);
  const auto index = at::bucketize(scaled.contiguous(), borders).to(at::kByte).view({numbers.size(0), -1, 2});
  out.data = index.select(2, 0) * 16 + index.select(2, 1);
  return out;
}

torch::Tensor unpacked_nf4_reference(const Weight& weight, at::ScalarType type) {
  at::NoGradGuard no_grad;
  const auto high = at::floor_divide(weight.data, 16), low = weight.data.remainder(16);
  const auto index = at::stack({high, low}, -1).to(at::kLong);  // [out, in / 2, 2]
  const auto values = nf4_values(weight.scale.options()).index_select(0, index.flatten());
  return (values.view({weight.rows(), -1, kStretch}) * weight.scale.unsqueeze(-1))
      .view({weight.rows(), weight.columns()})
      .to(type);
}

torch::Tensor rounded_e4m3(const torch::Tensor& x) {
  at::NoGradGuard no_grad;
  const auto exponent = std::get<1>(at::frexp(x)).to(at::kFloat) - 1;  // |x| is in [2^e, 2^(e+1))
  const auto step = at::exp2(exponent.clamp_min(-6) - 3);              // below 2^-6 numbers lie evenly
  return at::round(x / step) * step;
}

Fp8Rows fp8_rows_reference(const torch::Tensor& x) {
  at::NoGradGuard no_grad;
  const auto wide = x.to(at::kFloat);
  const auto scale = (wide.abs().amax(-1, /*keepdim=*/true) / kLargestE4m3).clamp_min(1e-12);
  return {rounded_e4m3((wide / scale).clamp(-kLargestE4m3, kLargestE4m3)), scale};
}

}  // namespace asr
