// CLIP's text tower: a causal transformer over at most 77 tokens with learnt positions. A text is its state at the end
// token, after the last norm.
#pragma once

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "nn/clip_layer.h"

namespace asr {

class ClipText {
 public:
  int64_t width = 0, vocabulary = 0, longest = 0;
  // Where a text is read: at its first token of this number. Configurations of before transformers 4.31 say 2, which is
  // no end token of theirs: there it is the first of the largest number in the text, as then.
  int64_t end_token = 49407;

  torch::Tensor tokens, positions;  // [vocabulary, width], [longest, width]
  std::vector<ClipLayer> layers;
  LayerNorm last_norm;

  ClipText() = default;
  // `config` is the whole config.json of a CLIP model, `weights` stands below the tower's prefix.
  ClipText(const nlohmann::json& config, Weights weights);

  // ids [B, T] with anything after the end token -> [B, width]
  torch::Tensor operator()(const torch::Tensor& ids) const;
  torch::Tensor read_at(const torch::Tensor& ids) const;  // [B]: the place of each text's state
  bool reads_largest() const { return end_token == 2; }

  template <class F>
  void each(F&& f) {
    each_weight(f, tokens, positions, last_norm);
    for (auto& l : layers) l.each(f);
  }
};

}  // namespace asr
