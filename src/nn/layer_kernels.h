// The builds of the layer kernels that this machine runs, and the checks that every fused layer shares.
#pragma once

#include <torch/types.h>

#include "base/error.h"
#include "nn/kernel/layer_kernels.h"

namespace asr {

const kernel::LayerKernels& layer_kernels();

// The kernels know float on the CPU; everything else takes the plain path.
inline bool has_kernel(const torch::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat;
}

// Rows a task, so that a task costs more than waking a thread.
inline int64_t rows_per_task(int64_t width) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width));
}

}  // namespace asr
