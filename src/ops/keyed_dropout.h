// Dropout whose mask is a function of a key and an entry's place, so that a step draws the same one whenever it is run
// again, in one process or in several, on any device. Eight neighbouring entries share the bits of one hash.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace asr {

struct DropoutKey {
  double probability = 0;  // rounded to a multiple of 1/256
  uint64_t key = 0;
  // Where the samples of x (equal shares of its entries) stand in the whole batch; empty: x is the whole batch.
  std::vector<int64_t> positions = {};
};

torch::Tensor keyed_dropout(const torch::Tensor& x, const DropoutKey& key);
torch::Tensor keyed_dropout_reference(const torch::Tensor& x, const DropoutKey& key);
torch::Tensor keyed_dropout_cpu(const torch::Tensor& x, const DropoutKey& key);
torch::Tensor keyed_dropout_cuda(const torch::Tensor& x, const DropoutKey& key);

// Whether it is cheap to draw a mask of x again: on a GPU, where memory is scarcer than arithmetic.
bool makes_masks_again(const torch::Tensor& x);

// to += keyed_dropout(x), nothing recorded: a gradient on its way back through a mask. Both contiguous, of one shape.
void add_dropped(const torch::Tensor& to, const torch::Tensor& x, const DropoutKey& key);
void add_dropped_cuda(const torch::Tensor& to, const torch::Tensor& x, const DropoutKey& key);

// to += sum of scale * keyed_dropout(middle a), nothing recorded: gradients of x through dropout and A of several
// experts.
struct MaskedLowRank {
  torch::Tensor middle, a;  // [rows, r], [r, width]
  double scale = 1;
  DropoutKey key;
};
void add_masked_low_rank(const torch::Tensor& to, const std::vector<MaskedLowRank>& pulls);
void add_masked_low_rank_reference(const torch::Tensor& to, const std::vector<MaskedLowRank>& pulls);
void add_masked_low_rank_cuda(const torch::Tensor& to, const std::vector<MaskedLowRank>& pulls);

}  // namespace asr
