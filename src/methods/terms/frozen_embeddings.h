// Picture and question of samples as vectors that no training moves, and how near they are to keys of tasks. The
// vectors are the backbone's own: means of hidden states over visual and over question positions, adapters off.
#pragma once

#include <torch/types.h>

#include "backbones/backbone.h"
#include "data/sample_batch.h"

namespace asr {

struct FrozenEmbeddings {
  torch::Tensor image, text;  // [B, width] each, float32, without gradient
};

// What is known of the batch already (SampleBatch::reference_*) is taken as it is; otherwise it is a pass of the base.
FrozenEmbeddings frozen_embeddings(const Backbone& model, const SampleBatch& batch);

torch::Tensor cosines(const torch::Tensor& rows, const torch::Tensor& keys);  // [B, width], [K, width] -> [B, K]

}  // namespace asr
