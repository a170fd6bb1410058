// The distance of descriptors to stored prototypes and its loss (paper, "Spectral Distillation"). On the CPU one node
// of the graph: a step has a few thousand numbers here, so forty operators would cost more than the arithmetic.
#pragma once

#include <torch/types.h>

#include "ops/dispatch.h"

namespace asr {

constexpr double kDistributionFloor = 1e-8;  // of the angular distributions; a constant of the definition

struct LossTerms {
  torch::Tensor distance, divergence;  // [B, n], no gradient
  torch::Tensor weight, per_sample;    // [B], no gradient
  torch::Tensor loss;                  // scalar, differentiable
};

// n prototypes, prepared: variances floored, unused dimensions at precision 0, 1/count of `mean`.
struct SpectralTarget {
  torch::Tensor mean, precision;       // [n, D]
  torch::Tensor angular, log_angular;  // [n, M], a floored distribution and its logarithm
  double lambda_ang = 0, tau = 1, kl_factor = 1, eps = 0;
  double fixed_weight = 1;        // of a sample whose weight is not adaptive
  bool adaptive = false;          // a sample weighs exp(-distance / tau) to its nearest prototype
  bool confidence_moves = false;  // the gradient goes through that weight too
  bool eps_add = true;            // sum + eps, or max(sum, eps)
  int64_t angular_begin = 0;      // where the angular spectrum starts in a descriptor
};

// descriptor [B, D]; weights [B, n]: how much of a sample each prototype stands for.
LossTerms spectral_loss(const torch::Tensor& descriptor, const torch::Tensor& weights, const SpectralTarget& target,
                        Implementation implementation = Implementation::automatic);
LossTerms spectral_loss_reference(const torch::Tensor& descriptor, const torch::Tensor& weights,
                                  const SpectralTarget& target);
LossTerms spectral_loss_cpu(const torch::Tensor& descriptor, const torch::Tensor& weights,
                            const SpectralTarget& target);
LossTerms spectral_loss_cuda(const torch::Tensor& descriptor, const torch::Tensor& weights,
                             const SpectralTarget& target);  // at most 32 angular bins

// Rows of a spectrum as distributions of at least kDistributionFloor.
torch::Tensor floored_distribution(const torch::Tensor& spectrum, double eps, bool eps_add);

}  // namespace asr
