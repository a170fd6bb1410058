// The spectral distillation loss of a batch against stored prototypes (paper, "Spectral Distillation"), with
// every ablation and design variant; and the geometry loss that anchors cross-modal similarities.
#pragma once

#include <torch/types.h>

#include "spectral/descriptor.h"
#include "spectral/options.h"

namespace asr {

constexpr double kDistributionFloor = 1e-8;  // of the angular distributions; a constant of the definition

// Prototypes as tensors, one row a prototype in any order; empty tensors mean an empty memory.
struct PrototypeTensors {
  torch::Tensor skill;           // [n] int64: column of the posterior (task or global index in those variants)
  torch::Tensor mean, variance;  // [n, D]
  torch::Tensor angular;         // [n, M]
  torch::Tensor map;             // [n, H, W], only for asr.spectrum=raw
  int64_t size() const { return skill.defined() ? skill.numel() : 0; }
};

struct LossTerms {
  torch::Tensor distance, divergence;  // [B, n], no gradient
  torch::Tensor weight, per_sample;    // [B], no gradient
  torch::Tensor loss;                  // scalar, differentiable
};

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

  // What the kernels read, prepared: variances floored, unused dimensions at precision 0, 1/count of `mean`.
  struct Target {
    torch::Tensor mean, precision;       // [n, D]
    torch::Tensor angular, log_angular;  // [n, M], a floored distribution and its logarithm
    double lambda_ang = 0, tau = 1, kl_factor = 1, fixed_weight = 1, eps = 0;
    Confidence confidence = Confidence::one;
    bool eps_add = true;
    int64_t angular_begin = 0;  // where the angular spectrum starts in a descriptor
  };
  const Target& target() const { return target_; }
  torch::Tensor skill_weights(const torch::Tensor& posterior) const;  // [B, n]

 private:
  LossTerms empty(const torch::Tensor& like, int64_t batch) const;

  Options options_;
  at::TensorOptions compute_;
  Implementation implementation_;
  torch::Tensor skill_, map_;
  int64_t last_skill_ = -1;
  Target target_;
};

LossTerms spectral_loss_reference(const torch::Tensor& descriptor, const torch::Tensor& weights,
                                  const SpectralLoss::Target& target);
LossTerms spectral_loss_fused(const torch::Tensor& descriptor, const torch::Tensor& weights,
                              const SpectralLoss::Target& target);

// Rows must be distributions over skills: finite, >= 0, summing to 1 within 1e-3.
void check_posterior(const torch::Tensor& posterior, SkillMode mode);

// Symmetric KL between the row softmaxes of two cosine-similarity matrices; all inputs [B, E], and no gradient for the
// references. Fused on the CPU; the plain form is for the rest and for the tests.
torch::Tensor geometry_loss(const torch::Tensor& image, const torch::Tensor& text, const torch::Tensor& image_reference,
                            const torch::Tensor& text_reference);
torch::Tensor geometry_loss_reference(const torch::Tensor& image, const torch::Tensor& text,
                                      const torch::Tensor& image_reference, const torch::Tensor& text_reference);
torch::Tensor geometry_loss_fused(const torch::Tensor& image, const torch::Tensor& text,
                                  const torch::Tensor& image_reference, const torch::Tensor& text_reference);

}  // namespace asr
