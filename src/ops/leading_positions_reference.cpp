#include "ops/leading_positions.h"

namespace asr {

torch::Tensor leading_positions_reference(const torch::Tensor& mask, int64_t count) {
  return at::where(mask.narrow(1, 0, count), leading_positions_reference(mask.size(0), count, mask.device()), -1);
}

torch::Tensor leading_positions_reference(int64_t batch, int64_t count, at::Device device) {
  return at::arange(count, at::device(device).dtype(at::kLong)).expand({batch, count});
}

}  // namespace asr
