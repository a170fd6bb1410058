// The spectral distillation loss of a batch against stored prototypes (paper, "Spectral Distillation"), with
// every ablation and design variant (the arithmetic is in ops/spectral_loss.h); and, through ops/geometry_loss.h, the
// loss that anchors cross-modal similarities.
#pragma once

#include <torch/types.h>

#include "ops/geometry_loss.h"
#include "ops/spectral_loss.h"
#include "spectral/descriptor.h"
#include "spectral/options.h"

namespace asr {

// Prototypes as tensors, one row a prototype in any order; empty tensors mean an empty memory.
struct PrototypeTensors {
  torch::Tensor skill;           // [n] int64: column of the posterior (task or global index in those variants)
  torch::Tensor mean, variance;  // [n, D]
  torch::Tensor angular;         // [n, M]
  torch::Tensor map;             // [n, H, W], only for asr.spectrum=raw
  torch::Tensor count = {};      // [n] samples behind each, for shrinkage; undefined: variances are read as they are
  int64_t size() const { return skill.defined() ? skill.numel() : 0; }
};

// Variances as a loss reads them, double on the CPU [n, D]: shrunk towards the pooled one by how few samples stand
// behind them, floored, and one number for all with asr.prototypes=mean.
torch::Tensor variances_as_read(const PrototypeTensors& prototypes, const Options& options);

// 1 for the descriptor entries that asr.spectrum matches: in the mean half and the second-moment half alike, or, with
// heads kept, in every head's and none of heads together. [numbers]
torch::Tensor used_dimensions(Spectrum spectrum, const SpectralOptions& options, int64_t numbers);

// Built once a stage from the memory, then called every step.
class SpectralLoss {
 public:
  // `compute` fixes device and type. Fails on shapes that do not fit the options, NaN and negative variances.
  SpectralLoss(const PrototypeTensors& prototypes, const Options& options, const at::TensorOptions& compute,
               Implementation implementation = Implementation::automatic);

  // descriptor [B, D], posterior [B, S]. Not for asr.spectrum=raw.
  LossTerms operator()(const torch::Tensor& descriptor, const torch::Tensor& posterior) const;
  // Raw attention matching: maps [B, J, H, W] are averaged over layer-heads first.
  LossTerms raw(const torch::Tensor& maps, const torch::Tensor& posterior) const;

  const SpectralTarget& target() const { return target_; }
  torch::Tensor skill_weights(const torch::Tensor& posterior) const;  // [B, n]

 private:
  LossTerms empty(const torch::Tensor& like, int64_t batch) const;

  Options options_;
  at::TensorOptions compute_;
  Implementation implementation_;
  torch::Tensor skill_, map_;
  int64_t last_skill_ = -1;
  SpectralTarget target_;
};

// Rows must be distributions over skills: finite, >= 0, summing to 1 within 1e-3.
void check_posterior(const torch::Tensor& posterior, SkillMode mode);

}  // namespace asr
