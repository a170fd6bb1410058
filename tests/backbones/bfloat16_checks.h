// How far a model in bfloat16 may be from the exact one.
#pragma once

#include <ATen/Context.h>

#include <cmath>

#include "tests/backbones/reference_checks.h"

namespace asr {

inline torch::Tensor real_logits(const Golden& golden, PretrainedBackbone& model, at::Device device) {
  const auto batch = batch_of(golden, device);
  const auto hidden = model.inspect(batch, Pass{}, {}, batch.mask).hidden;
  return model.language().logits(hidden).to(at::kCPU, at::kDouble).index({batch.mask.cpu()});
}

// oneDNN's products in bfloat16 need instructions that many CPUs lack.
class WithoutOneDnn {
 public:
  WithoutOneDnn() : before_(at::globalContext().userEnabledMkldnn()) {
    at::globalContext().setUserEnabledMkldnn(false);
  }
  ~WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(before_); }

 private:
  bool before_;
};

inline double root_mean_square(const torch::Tensor& values) {
  return std::sqrt(values.pow(2).mean().item<double>());
}

inline constexpr double kHalfEpsilon = 1.0 / 256;  // of bfloat16

// Weights of all linears, each off by up to this part of itself.
inline void spoil_weights(PretrainedBackbone& model, double part) {
  torch::manual_seed(17);
  for (const auto& site : model.all_sites()) {
    const auto weight = site.linear->weight.to(at::kDouble);
    const auto wrong = weight * (1 + part * (2 * torch::rand_like(weight) - 1));
    site.linear->weight = wrong.to(site.linear->weight.scalar_type());
  }
}

// How a model passes errors on is its own matter: some make ten times as much of them as others. So the measure is the
// model in double whose linears have weights that are off by up to half an epsilon of bfloat16, as rounding leaves
// them. `spoilt`: how much the model in bfloat16 is off beyond its roundings, to see that this is noticed.
inline double bfloat16_ratio(const Golden& golden, at::Device device, double spoilt = 0) {
  at::NoGradGuard no_grad;
  const WithoutOneDnn plain_products;
  const auto wrong = open_model(golden.folder);  // in double
  spoil_weights(*wrong, kHalfEpsilon);
  const auto expected = golden.real("out.logits").index({batch_of(golden).mask}).to(at::kDouble);
  const double of_weights = root_mean_square(real_logits(golden, *wrong, at::kCPU) - expected);
  const auto model = open_model(golden.folder, at::kBFloat16, at::kCPU);
  if (spoilt > 0) spoil_weights(*model, spoilt);
  model->to(device);
  const auto logits = real_logits(golden, *model, device);
  const double ratio = root_mean_square(logits - expected) / of_weights;
  std::cout << "weights off by half an epsilon: " << of_weights << "; bfloat16: " << ratio << " times that, largest "
            << apart(logits, expected) << "\n";
  return ratio;
}

// A layer that computes in bfloat16 rounds about 24 times: two norms (2 each), q, k, v, their rotation (3 each of q and
// k), scores and weights of attention, its result, o, gate, up, SiLU, their product, down, and two sums. Each does at
// most what all wrong weights of the layer do together; they are independent, so squares add up.
inline const double kMostBfloat16Ratio = std::sqrt(1 + 24.0);

}  // namespace asr
