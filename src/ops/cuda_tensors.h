// Tensors as our CUDA kernels take them.
#pragma once

#include <torch/types.h>

#include "ops/cuda_kernels.h"

namespace asr {

bool has_cuda_kernels();                    // whether this program was built with them
bool cuda_kernels_take(at::Device device);  // whether they run on tensors of this device

cuda::Number number_of(const torch::Tensor& x);  // float32, half or bfloat16
cuda::Stream stream_of(const torch::Tensor& x);  // on which its device works now

// Whether kernels that read 16 bytes at a time may read x: contiguous and aligned, rows of whole vectors.
bool in_vectors(const torch::Tensor& x, int64_t row);

// The same numbers so that these kernels may read them: a copy where they do not lie so already.
torch::Tensor aligned(const torch::Tensor& x);

}  // namespace asr
