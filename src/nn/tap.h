// Looking at attention without forming it: a tap asks chosen layers for the rows of chosen query tokens, with the
// model's own mask and differentiable. Fused attention hands them out as it passes; elsewhere those rows alone are
// computed again from queries and keys.
#pragma once

#include <torch/types.h>

#include <utility>
#include <vector>

#include "ops/attention.h"

namespace asr {

struct TapRequest {
  std::vector<int64_t> layers;  // ascending
  torch::Tensor rows;           // [B, T] int64 positions of query tokens; -1 is padding and gives a row of zeros
  torch::Tensor columns;        // [B, V] int64 positions of the tokens looked at; -1 gives a column of zeros
  // Where rows and columns are the same stretch of positions in every sample, slices serve instead of gathers: rows
  // then begin at `first_row` (rows [B, T] still says which are padding), columns at `first_column`.
  int64_t first_row = -1, first_column = -1;
  bool to_text = false;  // in a decoder that also looks at a context: its attention to the text, not to the context
};

// What all tapped layers of a pass share: which keys a row sees, and where rows and columns are.
struct TapMask {
  torch::Tensor bias;           // [B, 1, T or 1, S]: 0, or far below where a row does not see a key; float32 at least
  torch::Tensor rows, columns;  // [B, 1, T, 1] and [B, 1, 1, V], padding at 0
  torch::Tensor real, zero;     // [B, 1, T, V], and what stands elsewhere
  double scale = 1;             // of the scores
};

struct TapResult {
  std::vector<torch::Tensor> layers;  // one a requested layer: [B, heads, T, V]
  // Where attention is not fused with its tap, a layer leaves the scores of its rows, [B, heads, T, S], and finish()
  // makes all of them into rows: on a GPU each small operator costs a start.
  std::vector<torch::Tensor> scores;
  TapMask mask;       // made by the first layer that needs it
  torch::Tensor all;  // [B, L, heads, T, V] where finish() made the layers

  void finish();                                               // at the end of a pass
  torch::Tensor stacked() const;                               // [B, L, heads, T, V]
  torch::Tensor stacked(int64_t height, int64_t width) const;  // V as [height, width], in order
};

// q [B, heads, S, d] (already rotated), k [B, heads, S, d], key_mask [B, S] true where a key may be seen, or undefined
// where none is hidden; causal rows see keys up to their own position. Float32 at least, whatever q is.
torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& key_mask, bool causal,
                             const TapRequest& request);
TapMask tap_mask(const torch::Tensor& k, const torch::Tensor& key_mask, bool causal, const TapRequest& request);
// [B, heads, T, S], not yet scaled; k may have fewer heads than q.
torch::Tensor tap_scores(const torch::Tensor& q, const torch::Tensor& k, const TapMask& mask);

// A tap and the place of its rows; null where nothing is asked for.
struct LayerTap {
  const TapRequest* request = nullptr;
  TapResult* result = nullptr;
};

// attend() of ops/attention.h with the tap's rows added to its result. With a tap, causal attention needs as many
// queries as keys.
torch::Tensor attend_and_tap(const AttentionHeads& heads, const LayerTap& tap);

}  // namespace asr
