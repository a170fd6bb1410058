// Rows of attention [B, heads, T, V] of several layers as one tensor [B, L, heads, T, height, width], V = height *
// width.
#pragma once

#include <torch/types.h>

#include <vector>

namespace asr {

torch::Tensor stack_rows(const std::vector<torch::Tensor>& layers, int64_t height, int64_t width);
torch::Tensor stack_rows_reference(const std::vector<torch::Tensor>& layers, int64_t height, int64_t width);
// Contiguous layers; the gradient is made of views.
torch::Tensor stack_rows_cpu(const std::vector<torch::Tensor>& layers, int64_t height, int64_t width);

}  // namespace asr
