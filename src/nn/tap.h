// Looking at attention without forming it: a tap asks chosen layers for the rows of chosen query tokens. Those rows
// alone are computed again from queries and keys, with the model's own mask, and stay differentiable.
#pragma once

#include <torch/types.h>

#include <vector>

namespace asr {

struct TapRequest {
  std::vector<int64_t> layers;  // ascending
  torch::Tensor rows;           // [B, T] int64 positions of query tokens; -1 is padding and gives a row of zeros
  torch::Tensor columns;        // [B, V] int64 positions of the tokens looked at; -1 gives a column of zeros
  // Where rows and columns are the same stretch of positions in every sample, slices serve instead of gathers: rows
  // then begin at `first_row` (rows [B, T] still says which are padding), columns at `first_column`.
  int64_t first_row = -1, first_column = -1;
};

struct TapResult {
  std::vector<torch::Tensor> layers;                                 // one a requested layer: [B, heads, T, V]
  torch::Tensor stacked() const { return torch::stack(layers, 1); }  // [B, L, heads, T, V]
};

// q [B, heads, S, d] (already rotated), k [B, heads, S, d], key_mask [B, S] true where a key may be seen; causal rows
// see keys up to their own position.
torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& key_mask, bool causal,
                             const TapRequest& request);

}  // namespace asr
