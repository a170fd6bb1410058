// Input directions of a weight or of its gradient: leading ones, what lies outside a basis, and a basis that grows.
// Bases are rows [k, in], orthonormal, float32 on the CPU; they are computed in double, on the matrix' device.
#pragma once

#include <torch/types.h>

namespace asr {

// The leading right singular vectors of a weight [out, in] whose energy together stays below this part of the whole.
torch::Tensor leading_inputs(const torch::Tensor& weight, double energy);

// The matrix [out, in] without what it reads along the basis.
torch::Tensor without(const torch::Tensor& matrix, const torch::Tensor& basis);

// Its `count` leading right singular vectors, [count, in], in order; in a fixed sign. Zeros where it reads nothing: a
// direction whose energy (squared singular value) is not above `least` would be rounding's.
torch::Tensor principal_inputs(const torch::Tensor& matrix, int64_t count, double least = 0);

// The basis and as many leading directions of the gradient's rest as bring the energy inside to this part of the whole.
torch::Tensor extended(const torch::Tensor& basis, const torch::Tensor& gradient, double energy);

}  // namespace asr
