// The first positions of each row, as a tap asks for them in every training step, where a small model's operators take
// microseconds.
#pragma once

#include <torch/types.h>

namespace asr {

// [B, count] of 0, 1, ... and -1 where mask [B, T] is false.
torch::Tensor leading_positions(const torch::Tensor& mask, int64_t count);
torch::Tensor leading_positions_reference(const torch::Tensor& mask, int64_t count);
torch::Tensor leading_positions_cpu(const torch::Tensor& mask, int64_t count);

// The same without a mask.
torch::Tensor leading_positions(int64_t batch, int64_t count, at::Device device);
torch::Tensor leading_positions_reference(int64_t batch, int64_t count, at::Device device);
torch::Tensor leading_positions_cpu(int64_t batch, int64_t count);

}  // namespace asr
