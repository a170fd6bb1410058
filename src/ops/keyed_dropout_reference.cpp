#include <cmath>

#include "ops/keyed_dropout.h"

namespace asr {

// A multiply-and-shift of the index, computed where the data is; its fourth byte is compared with the threshold. In
// place and with few operators, since every adapted linear of a step comes here.
torch::Tensor keyed_dropout_reference(const torch::Tensor& x, const DropoutKey& key) {
  const auto samples = static_cast<int64_t>(key.positions.size());
  const int64_t each = samples > 0 ? x.numel() / samples : x.numel();
  const auto first = static_cast<int64_t>(key.key >> 2);
  auto bits = at::arange(first, first + each, x.options().dtype(at::kLong).requires_grad(false));
  if (samples > 0)
    bits = bits + torch::tensor(key.positions, at::kLong).to(x.device(), /*non_blocking=*/true).unsqueeze(1) * each;
  bits.mul_(int64_t(0x2545F4914F6CDD1D));
  bits.bitwise_xor_(bits.bitwise_right_shift(29)).mul_(int64_t(0x1B873593CC9E2D51));
  const auto bytes = bits.view({-1, 1}).view(at::kByte);  // [numbers, 8], the lowest byte first
  const auto kept = bytes.select(1, 3).ge(std::lround(key.probability * 256));
  return x * kept.view(x.sizes()) * (256.0 / (256.0 - std::round(key.probability * 256)));
}

}  // namespace asr
