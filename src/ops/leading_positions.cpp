#include "ops/leading_positions.h"

#include "ops/dispatch.h"

namespace asr {

torch::Tensor leading_positions(const torch::Tensor& mask, int64_t count) {
  constexpr Kernels kernels{{at::kBool}, {}};
  return path_for(kernels, mask) == Path::cpu ? leading_positions_cpu(mask, count)
                                              : leading_positions_reference(mask, count);
}

torch::Tensor leading_positions(int64_t batch, int64_t count, at::Device device) {
  constexpr Kernels kernels{{at::kLong}, {}};
  return path_for(kernels, device, at::kLong) == Path::cpu ? leading_positions_cpu(batch, count)
                                                           : leading_positions_reference(batch, count, device);
}

}  // namespace asr
