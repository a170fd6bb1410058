#include "ops/leading_positions.h"

namespace asr {

torch::Tensor leading_positions_cpu(const torch::Tensor& mask, int64_t count) {
  const auto out = leading_positions_cpu(mask.size(0), count);
  auto* to = out.data_ptr<int64_t>();
  const bool* from = mask.data_ptr<bool>();
  for (int64_t b = 0; b < mask.size(0); ++b) {
    for (int64_t t = 0; t < count; ++t)
      if (!from[t * mask.stride(1)]) to[t] = -1;
    from += mask.stride(0);
    to += count;
  }
  return out;
}

torch::Tensor leading_positions_cpu(int64_t batch, int64_t count) {
  const auto out = torch::empty({batch, count}, at::kLong);
  auto* to = out.data_ptr<int64_t>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < count; ++t) *to++ = t;
  return out;
}

}  // namespace asr
