// The norm between the matrix products, alone or with the residual sum before it: one node of the graph and one pass
// over memory, in float32 on the CPU and in any type on a GPU. The weight gets a gradient only if it asks for
// one: a frozen model pays nothing for it.
#pragma once

#include <torch/types.h>

#include <utility>

namespace asr {

// x / rms(x) * weight over the last dimension.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps);
torch::Tensor rms_norm_reference(const torch::Tensor& x, const torch::Tensor& weight, double eps);
torch::Tensor rms_norm_cpu(const torch::Tensor& x, const torch::Tensor& weight, double eps);
torch::Tensor rms_norm_cuda(const torch::Tensor& x, const torch::Tensor& weight, double eps);
// Whether the CUDA kernel takes these rows: a frozen weight, and rows that a block can hold.
bool norm_fits_cuda(const torch::Tensor& x, const torch::Tensor& weight);

// The residual sum x + added and its norm, as every half of a decoder layer begins.
std::pair<torch::Tensor, torch::Tensor> add_rms_norm(const torch::Tensor& x, const torch::Tensor& added,
                                                     const torch::Tensor& weight, double eps);
std::pair<torch::Tensor, torch::Tensor> add_rms_norm_cpu(const torch::Tensor& x, const torch::Tensor& added,
                                                         const torch::Tensor& weight, double eps);
std::pair<torch::Tensor, torch::Tensor> add_rms_norm_cuda(const torch::Tensor& x, const torch::Tensor& added,
                                                          const torch::Tensor& weight, double eps);

}  // namespace asr
