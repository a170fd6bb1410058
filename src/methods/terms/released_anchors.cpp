#include "methods/terms/released_anchors.h"

#include <ATen/ATen.h>

#include "base/random.h"

namespace asr {

torch::Tensor anchor_noise(int64_t stages, int64_t width, uint64_t seed) {
  std::vector<torch::Tensor> rows;
  for (int64_t stage = 1; stage <= stages; ++stage) {
    const auto key = Random({seed, 0x41de, static_cast<uint64_t>(stage)}).next();
    rows.push_back(at::randn({1, width}, at::detail::createCPUGenerator(key), at::CPU(at::kFloat)) * 0.1);
  }
  return at::cat(rows);
}

// A count of 8,192 does not grow by 24, half of what bfloat16 can tell apart there being 32.
torch::Tensor coarse_running_mean(const torch::Tensor& start, const torch::Tensor& sums,
                                  const std::vector<int64_t>& rows) {
  auto mean = start.to(at::kBFloat16);
  auto count = at::ones({1}, at::kBFloat16);
  const auto coarse = sums.to(at::kBFloat16);
  for (size_t batch = 0; batch < rows.size(); ++batch) {
    const auto sum = mean * count + coarse[static_cast<int64_t>(batch)];
    count = count + rows[batch];
    mean = sum / count;
  }
  return mean.to(at::kFloat);
}

}  // namespace asr
