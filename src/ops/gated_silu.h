// silu(gate) * up, the middle of a gated MLP: one node of the graph and one pass over memory, which keeps gate and up
// alone.
#pragma once

#include <torch/types.h>

namespace asr {

torch::Tensor gated_silu(const torch::Tensor& gate, const torch::Tensor& up);
torch::Tensor gated_silu_reference(const torch::Tensor& gate, const torch::Tensor& up);
torch::Tensor gated_silu_cpu(const torch::Tensor& gate, const torch::Tensor& up);
torch::Tensor gated_silu_cuda(const torch::Tensor& gate, const torch::Tensor& up);

}  // namespace asr
