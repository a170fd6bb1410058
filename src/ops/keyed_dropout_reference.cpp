#include <cmath>

#include "ops/keyed_dropout.h"

namespace asr {
namespace {

// z ^ (z >> bits) with zeros shifted in, which int64 alone would not do.
void fold(torch::Tensor& z, int64_t bits) {
  const int64_t low = static_cast<int64_t>(~uint64_t(0) >> bits);
  z.bitwise_xor_(z.bitwise_right_shift(bits).bitwise_and_(low));
}

}  // namespace

// Random::mix of base/random.h by operators, computed where the data is: a hash for every eight entries of the whole
// batch that x has entries of, then a byte an entry.
torch::Tensor keyed_dropout_reference(const torch::Tensor& x, const DropoutKey& key) {
  const auto samples = static_cast<int64_t>(key.positions.size());
  const int64_t each = samples > 0 ? x.numel() / samples : x.numel();
  auto place = at::arange(each, x.options().dtype(at::kLong).requires_grad(false));
  if (samples > 0)
    place = place + torch::tensor(key.positions, at::kLong).to(x.device(), /*non_blocking=*/true).unsqueeze(1) * each;
  const auto byte = place.bitwise_and(7);
  auto z = (place - byte).mul_(static_cast<int64_t>(0x9e3779b97f4a7c15)).add_(static_cast<int64_t>(key.key));
  fold(z, 30);
  z.mul_(static_cast<int64_t>(0xbf58476d1ce4e5b9));
  fold(z, 27);
  z.mul_(static_cast<int64_t>(0x94d049bb133111eb));
  fold(z, 31);
  const auto drawn = z.bitwise_right_shift(byte * 8).bitwise_and_(255);
  const auto kept = drawn.ge(std::lround(key.probability * 256));
  return x * kept.view(x.sizes()) * (256.0 / (256.0 - std::round(key.probability * 256)));
}

}  // namespace asr
