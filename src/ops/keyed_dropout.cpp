#include "ops/keyed_dropout.h"

#include <algorithm>

#include "ops/dispatch.h"

namespace asr {
namespace {

constexpr Kernels kDropout{kFloating, {}, kUpToSingle};

// Whole hashes for every sample.
bool fits_cuda(const torch::Tensor& x, const DropoutKey& key) {
  const auto samples = std::max<int64_t>(1, static_cast<int64_t>(key.positions.size()));
  return x.numel() / samples % 8 == 0;
}

}  // namespace

torch::Tensor keyed_dropout(const torch::Tensor& x, const DropoutKey& key) {
  if (x.numel() == 0) return x;
  check(key.positions.empty() || x.numel() % static_cast<int64_t>(key.positions.size()) == 0, "dropout of ", x.numel(),
        " entries cannot be shared by ", key.positions.size(), " samples");
  const auto path = path_for(kDropout, x);
  if (path == Path::cpu) return keyed_dropout_cpu(x, key);
  return path == Path::cuda && fits_cuda(x, key) ? keyed_dropout_cuda(x, key) : keyed_dropout_reference(x, key);
}

torch::Tensor positions_on(at::Device device, const DropoutKey& key) {
  const auto& there = key.positions_there;
  if (there.defined() && there.device() == device) return there;
  return torch::tensor(key.positions, at::kLong).to(device, /*non_blocking=*/true);
}

bool makes_masks_again(const torch::Tensor& x) {
  return path_for(kDropout, x) == Path::cuda;
}

}  // namespace asr
