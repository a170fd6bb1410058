// How much each token of a question counts: U(q) = functional and valid tokens, all valid ones where that is empty;
// each row sums to 1. A sample without a valid token is an error.
#pragma once

#include <torch/types.h>

namespace asr {

// Any numeric masks [B, T], true where nonzero.
torch::Tensor token_weights(const torch::Tensor& functional, const torch::Tensor& valid);  // [B, T] float64
torch::Tensor token_weights_reference(const torch::Tensor& functional, const torch::Tensor& valid);
torch::Tensor token_weights_cpu(const torch::Tensor& functional, const torch::Tensor& valid);

// The same for tokens at positions `rows` [B, T] of functional [B, N]; -1 is no token.
torch::Tensor token_weights_at(const torch::Tensor& functional, const torch::Tensor& rows);
torch::Tensor token_weights_at_cpu(const torch::Tensor& functional, const torch::Tensor& rows);

}  // namespace asr
