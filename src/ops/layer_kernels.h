// The builds of the layer kernels that this machine runs.
#pragma once

#include <algorithm>

#include "ops/kernel/layer_kernels.h"

namespace asr {

const kernel::LayerKernels& layer_kernels();

// Rows a task, so that a task costs more than waking a thread.
inline int64_t rows_per_task(int64_t width) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width));
}

}  // namespace asr
