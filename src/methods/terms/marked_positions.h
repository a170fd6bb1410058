// Positions of weight matrices that were marked, stage by stage, and the mean of |B A| over them without ever forming
// B A whole: rows go through in blocks, and the gradient is taken by hand in the same sweep.
#pragma once

#include <torch/types.h>

#include <vector>

namespace asr {

// The `count` largest of |B A| as ascending flat indices (row * columns + column). int64 [count]
torch::Tensor largest_positions(const torch::Tensor& b, const torch::Tensor& a, int64_t count);

// A bit a position, eight columns a byte, the first column lowest. uint8 [rows, ceil(columns / 8)]
torch::Tensor packed_bits(const torch::Tensor& positions, int64_t rows, int64_t columns);
torch::Tensor unpacked_bits(const torch::Tensor& packed, int64_t columns);  // bool [rows, columns]
int64_t count_bits(const torch::Tensor& packed);

// How often positions are counted: bits, or numbers a position where one may be marked more than once.
struct PositionCounts {
  torch::Tensor bits;    // uint8 [rows, bytes], or undefined
  torch::Tensor counts;  // uint8 [rows, columns], or undefined
  double total = 0;      // of all positions

  torch::Tensor rows(int64_t begin, int64_t count, int64_t columns) const;  // float [count, columns]
};

// The mean of |(B A)_ij| over the counted positions. Its value and its gradient for A and B are those of that mean.
torch::Tensor marked_mean(const torch::Tensor& b, const torch::Tensor& a, const PositionCounts& marked);

}  // namespace asr
