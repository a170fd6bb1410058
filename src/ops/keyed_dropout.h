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
  torch::Tensor positions_there = {};  // the same, int64, where a GPU's kernels read them; undefined: a copy a call
};
torch::Tensor positions_on(at::Device device, const DropoutKey& key);

torch::Tensor keyed_dropout(const torch::Tensor& x, const DropoutKey& key);
torch::Tensor keyed_dropout_reference(const torch::Tensor& x, const DropoutKey& key);
torch::Tensor keyed_dropout_cpu(const torch::Tensor& x, const DropoutKey& key);
torch::Tensor keyed_dropout_cuda(const torch::Tensor& x, const DropoutKey& key);

// Whether it is cheap to draw a mask of x again: on a GPU, where memory is scarcer than arithmetic.
bool makes_masks_again(const torch::Tensor& x);

}  // namespace asr
