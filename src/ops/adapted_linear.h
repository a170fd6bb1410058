// Linear maps with low-rank experts as ONE autograd node: y = x W^T + b + sum_e s_e (g_e * x A_e^T) B_e^T. Several maps
// of the same x (q, k and v; gate and up) share a node too, so that the gradient of x is accumulated inside the
// products. Frozen tensors get no gradient and cost none: x itself is kept for the backward pass only where a trained
// tensor needs it. Rows are split over our own threads with a single-threaded
// BLAS under them, which won at the shapes of the smallest backbone (docs/performance.md).
#pragma once

#include <torch/types.h>

#include <optional>
#include <vector>

#include "ops/keyed_dropout.h"
#include "ops/weight.h"

namespace asr {

struct LowRank {
  torch::Tensor a, b;        // [r, in], [out, r]
  double scale = 1;          // alpha / r
  torch::Tensor input = {};  // what A reads where that is not x itself; else undefined
  torch::Tensor gate = {};  // [..., r] like x, or [1, ..., r]: what each column of x A^T is multiplied by; undefined: 1
  // A reads x after this dropout, which is made again in the backward pass instead of being kept.
  std::optional<DropoutKey> dropout = std::nullopt;
};

struct LinearMap {
  Weight weight;       // [out, in]
  torch::Tensor bias;  // [out] or undefined
  std::vector<LowRank> low_rank;
};

// x [..., in] -> one [..., out] a map.
std::vector<torch::Tensor> adapted_linears(const torch::Tensor& x, const std::vector<LinearMap>& maps);

torch::Tensor adapted_linear_reference(const torch::Tensor& x, const LinearMap& map);

}  // namespace asr
