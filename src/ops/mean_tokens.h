// Mean of x [B, T, width] over the tokens of mask [B, T], or over all without a mask; zeros where a row has none.
#pragma once

#include <torch/types.h>

namespace asr {

torch::Tensor mean_tokens(const torch::Tensor& x, const torch::Tensor& mask = {});
torch::Tensor mean_tokens_reference(const torch::Tensor& x, const torch::Tensor& mask = {});
torch::Tensor mean_tokens_cpu(const torch::Tensor& x, const torch::Tensor& mask = {});

}  // namespace asr
