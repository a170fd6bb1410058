#include "ops/weight_products.h"

namespace asr {

Weight for_products(const Weight& weight, at::ScalarType type) {
  return values_of(weight, type).detach();
}

void multiply_by(const torch::Tensor& y, const torch::Tensor& x, const Weight& weight, const torch::Tensor& bias) {
  auto out = y;
  if (bias.defined())
    at::addmm_out(out, bias, x, weight.data.t());
  else
    at::mm_out(out, x, weight.data.t());
}

void multiply_by_transposed(const torch::Tensor& dx, const torch::Tensor& dy, const Weight& weight, bool accumulate) {
  auto out = dx;
  at::addmm_out(out, dx, dy, weight.data, accumulate ? 1 : 0, 1);
}

}  // namespace asr
