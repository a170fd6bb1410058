// The layers between the matrix products, each one autograd node and one pass over memory in float32 on the CPU. The
// plain form beside each is the reference, and serves every other type and device. Weights get a gradient only if they
// ask for one: a frozen model pays nothing for them.
#pragma once

#include <torch/types.h>

#include <utility>

namespace asr {

// x / rms(x) * weight over the last dimension.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps);
torch::Tensor rms_norm_reference(const torch::Tensor& x, const torch::Tensor& weight, double eps);

// The residual sum x + added and its norm, as every half of a decoder layer begins.
std::pair<torch::Tensor, torch::Tensor> add_rms_norm(const torch::Tensor& x, const torch::Tensor& added,
                                                     const torch::Tensor& weight, double eps);

// silu(gate) * up, the middle of a gated MLP.
torch::Tensor gated_silu(const torch::Tensor& gate, const torch::Tensor& up);
torch::Tensor gated_silu_reference(const torch::Tensor& gate, const torch::Tensor& up);

// Mean of x [B, T, width] over the tokens of mask [B, T], or over all without a mask; zeros where a row has none.
torch::Tensor mean_tokens(const torch::Tensor& x, const torch::Tensor& mask = {});
torch::Tensor mean_tokens_reference(const torch::Tensor& x, const torch::Tensor& mask = {});

}  // namespace asr
