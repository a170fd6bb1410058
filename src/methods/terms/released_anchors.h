// Anchors of stages as the released code of HiDe-LLaVA has them: every stage's begins as noise that counts as one
// sample, and takes in batch after batch as a running mean whose sums, counts and quotients are all bfloat16.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace asr {

// A tenth of standard normal numbers, of one row a stage: [stages, width]. A stage's do not depend on how many there
// are.
torch::Tensor anchor_noise(int64_t stages, int64_t width, uint64_t seed);

// After batches of so many rows with these sums [batches, width]: [1, width] in float32.
torch::Tensor coarse_running_mean(const torch::Tensor& start, const torch::Tensor& sums,
                                  const std::vector<int64_t>& rows);

}  // namespace asr
