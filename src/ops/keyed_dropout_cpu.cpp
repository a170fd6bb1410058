#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "ops/keyed_dropout.h"

namespace asr {
namespace {

// Kept entries hold 1 / (1 - p). One random byte an entry: probabilities are multiples of 1/256.
void fill_mask(float* out, int64_t first, int64_t count, double probability, uint64_t key) {
  const auto threshold = static_cast<uint64_t>(std::lround(probability * 256));
  const float kept = 256.0f / static_cast<float>(256 - threshold);
  for (int64_t i = 0; i < count;) {
    const int64_t entry = first + i, begin = entry % 8, end = std::min<int64_t>(8, begin + count - i);
    const uint64_t bits = Random::mix(key + static_cast<uint64_t>(entry - begin) * 0x9e3779b97f4a7c15);
    for (int64_t j = begin; j < end; ++j) out[i++] = (bits >> (8 * j) & 255) < threshold ? 0.0f : kept;
  }
}

}  // namespace

torch::Tensor keyed_dropout_cpu(const torch::Tensor& x, const DropoutKey& key) {
  const auto samples = static_cast<int64_t>(key.positions.size());
  const int64_t each = samples > 0 ? x.numel() / samples : x.numel();
  const auto mask = at::empty({x.numel()}, at::CPU(at::kFloat));
  auto* to = mask.data_ptr<float>();
  for (int64_t i = 0; i < std::max<int64_t>(1, samples); ++i) {
    const int64_t first = samples > 0 ? key.positions[static_cast<size_t>(i)] * each : 0;
    fill_mask(to + i * each, first, each, key.probability, key.key);
  }
  return x * mask.view(x.sizes()).to(x.scalar_type());
}

}  // namespace asr
