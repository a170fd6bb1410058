// Recognises the samples of a task: an autoencoder fitted to features that the base makes of them gives those back with
// less error than the features of others.
#pragma once

#include <torch/types.h>

#include "backbones/backbone.h"
#include "data/sample_batch.h"

namespace asr {

// Largest entries over the vision tower's tokens, and over those of the question read alone, all experts off.
// [B, tower width + width], rows of length 1
torch::Tensor task_features(const Backbone& model, const SampleBatch& batch);

// sigmoid(decode relu(encode z)).
struct TaskAutoencoder {
  torch::Tensor encode, encode_bias, decode, decode_bias;  // [hidden, d], [hidden], [d, hidden], [d]

  torch::Tensor errors(const torch::Tensor& features) const;  // mean squared, [B]
};

// Of random weights, as torch.nn.Linear begins.
TaskAutoencoder new_task_autoencoder(int64_t hidden, int64_t width, uint64_t seed, at::Device device);

}  // namespace asr
