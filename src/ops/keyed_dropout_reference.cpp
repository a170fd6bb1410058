#include <cmath>

#include "ops/keyed_dropout.h"

namespace asr {

// A multiply-and-shift of the index, computed where the data is and compared with the threshold.
torch::Tensor keyed_dropout_reference(const torch::Tensor& x, const DropoutKey& key) {
  const auto samples = static_cast<int64_t>(key.positions.size());
  const int64_t each = samples > 0 ? x.numel() / samples : x.numel();
  auto index = at::arange(each, x.options().dtype(at::kLong));
  if (samples > 0) index = index + torch::tensor(key.positions, at::kLong).to(x.device()).unsqueeze(1) * each;
  auto bits = (index + static_cast<int64_t>(key.key >> 2)) * int64_t(0x2545F4914F6CDD1D);
  bits = bits.bitwise_xor(bits.bitwise_right_shift(29)) * int64_t(0x1B873593CC9E2D51);
  const auto kept = bits.bitwise_right_shift(24).bitwise_and(255).ge(std::lround(key.probability * 256));
  return x * kept.view(x.sizes()).to(x.scalar_type()) * (256.0 / (256.0 - std::round(key.probability * 256)));
}

}  // namespace asr
