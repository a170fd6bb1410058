// What the kernels of the descriptor share.
#pragma once

#include "ops/cuda_common.cuh"
#include "ops/descriptor_cuda.h"

namespace asr::cuda {

__device__ inline float guarded(float sum, const SpectrumTables& t) {
  return t.eps_add ? sum + t.eps : fmaxf(sum, t.eps);
}
// How the guarded sum moves with the sum.
__device__ inline float moves(float sum, const SpectrumTables& t) {
  return t.eps_add || sum >= t.eps ? 1.0f : 0.0f;
}

// Grids of 24 x 24, the common one, have kernels of their own: a warp a map (descriptor_24_cuda.cu).
inline bool is_grid_24(const SpectrumTables& t) {
  return t.height == 24 && t.width == 24 && t.radial <= 32 && t.angular <= 32;
}
void maps_24_forward(const SpectrumTables& tables, const SpectrumShape& shape, const SpectrumForward& of,
                     Stream stream);
void maps_24_backward(const SpectrumTables& tables, const SpectrumShape& shape, const SpectrumBackward& of,
                      Stream stream);

}  // namespace asr::cuda
