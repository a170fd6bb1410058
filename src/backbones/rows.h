// Positions in a sequence where a mask is true.
#pragma once

#include <torch/types.h>

namespace asr {

// Positions of the true entries of each row, in order, padded with -1 to the longest row: [B, T] -> [B, longest].
torch::Tensor positions_of(const torch::Tensor& mask);

// The chosen entries of each row pushed to the right edge, so that every row can be continued at the same column.
struct RightAligned {
  torch::Tensor column;  // [B, longest]: where in the row an entry comes from; 0 where `real` is false
  torch::Tensor real;    // [B, longest] bool
};
RightAligned right_aligned(const torch::Tensor& mask);

}  // namespace asr
