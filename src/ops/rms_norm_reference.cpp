#include <cmath>

#include "ops/rms_norm.h"

namespace asr {

torch::Tensor rms_norm_reference(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  // In float32 at least and rounded before the weight, as transformers has it: a mean of squares in bfloat16 is off by
  // a part in 256.
  const auto type = at::promote_types(x.scalar_type(), at::kFloat);
  const double width = static_cast<double>(x.size(-1));
  // sqrt(mean of squares + eps), from operators that read x as it is: on a GPU every one of them costs a start.
  const auto length = at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, /*keepdim=*/true, type);
  const auto scale = at::hypot(length * (1 / std::sqrt(width)), at::scalar_tensor(std::sqrt(eps), at::dtype(type)));
  return (x / scale).to(x.scalar_type()) * weight;
}

}  // namespace asr
