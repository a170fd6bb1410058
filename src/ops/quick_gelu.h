// x * sigmoid(1.702 x), CLIP's activation: one pass over memory on a GPU instead of three.
#pragma once

#include <torch/types.h>

namespace asr {

torch::Tensor quick_gelu(const torch::Tensor& x);
torch::Tensor quick_gelu_reference(const torch::Tensor& x);
torch::Tensor quick_gelu_cuda(const torch::Tensor& x);

}  // namespace asr
