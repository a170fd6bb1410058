// The fused CPU spectral loss of one sample, and its gradient: raw pointers in, raw pointers out, no torch, one thread.
// Compiled once per instruction set (cmake/kernels.cmake) and chosen at run time.
#pragma once

#include <cstddef>

namespace asr::kernel {

// SpectralTarget as the kernel reads it: n prototypes of D numbers with angular distributions of M.
template <class Real>
struct LossTarget {
  int prototypes, size, bins, angular_begin;  // n, D, M, and where the angular spectrum starts in a descriptor
  const Real *mean, *precision;               // [n][D]
  const Real *angular, *log_angular;          // [n][M]
  Real lambda, kl_factor, tau, fixed_weight, eps, floor;  // fixed_weight: where the confidence is not adaptive
  bool adaptive, confidence_moves, eps_add;               // confidence_moves: the gradient goes through it
};

template <class Real>
struct LossInput {
  const Real* descriptor;  // [D]
  const Real* share;       // [n]: how much of the sample each prototype stands for
  int batch;               // samples of its batch
};

template <class Real>
struct LossOutput {
  Real *distance, *divergence;  // [n]
  Real *weight, *loss;          // [1]
  Real* grad;                   // [D]: of the loss divided by the batch's size; or null
};

template <class Real>
struct LossFunctions {
  size_t (*scratch)(const LossTarget<Real>&);  // numbers
  void (*sample)(const LossTarget<Real>&, const LossInput<Real>&, const LossOutput<Real>&, Real* scratch);
};

#define ASR_DECLARE_KERNEL(name)        \
  namespace name {                      \
  template <class Real>                 \
  LossFunctions<Real> loss_functions(); \
  }
ASR_DECLARE_KERNEL(portable)
ASR_DECLARE_KERNEL(avx2)
#undef ASR_DECLARE_KERNEL

}  // namespace asr::kernel
