// Low-rank maps behind a dropout, for linear maps that draw their masks again instead of keeping what they dropped:
// the products of x with A and both of their gradients, where nothing of x's size is written but the gradient of x.
#pragma once

#include <torch/types.h>

#include <vector>

#include "ops/keyed_dropout.h"

namespace asr {

struct MaskedLowRank {
  torch::Tensor middle;  // [rows, r]
  torch::Tensor a;       // [r, width]
  double scale = 1;
  DropoutKey key;
};

// All of these record nothing; x and dx are [rows, width], contiguous.

// middle = keyed_dropout(x) a^T
void masked_middles(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts);
void masked_middles_reference(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts);
void masked_middles_cuda(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts);

// dx += sum over experts of scale * keyed_dropout(middle a)
void add_masked_pulls(const torch::Tensor& dx, const std::vector<MaskedLowRank>& experts);
void add_masked_pulls_reference(const torch::Tensor& dx, const std::vector<MaskedLowRank>& experts);
void add_masked_pulls_cuda(const torch::Tensor& dx, const std::vector<MaskedLowRank>& experts);

// a = scale * middle^T keyed_dropout(x), summed in the type of a
void masked_sums(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts);
void masked_sums_reference(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts);
void masked_sums_cuda(const torch::Tensor& x, const std::vector<MaskedLowRank>& experts);

}  // namespace asr
