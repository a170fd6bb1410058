#include "ops/cuda_tensors.h"

#include "base/error.h"

namespace asr {

cuda::Number number_of(const torch::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return cuda::Number::single;
    case at::kHalf:
      return cuda::Number::half;
    case at::kBFloat16:
      return cuda::Number::bfloat16;
    default:
      fail("CUDA kernels take float32, half and bfloat16, not ", at::toString(x.scalar_type()));
  }
}

namespace {

bool begins_a_vector(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
}

}  // namespace

bool in_vectors(const torch::Tensor& x, int64_t row) {
  return x.is_contiguous() && row * static_cast<int64_t>(x.element_size()) % 16 == 0 && begins_a_vector(x);
}

torch::Tensor aligned(const torch::Tensor& x) {
  const auto out = x.contiguous();
  return begins_a_vector(out) ? out : out.clone();
}

}  // namespace asr
