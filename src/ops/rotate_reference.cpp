#include "ops/rotate.h"

namespace asr {

torch::Tensor rotate_reference(const torch::Tensor& x, const RotaryTable& table) {
  const int64_t half = x.size(3) / 2;
  const auto cosine = table.cosine.unsqueeze(1), sine = table.sine.unsqueeze(1);
  const auto a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 3);
}

}  // namespace asr
