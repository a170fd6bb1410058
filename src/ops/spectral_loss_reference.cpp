#include "ops/spectral_loss.h"

namespace asr {

torch::Tensor floored_distribution(const torch::Tensor& spectrum, double eps, bool eps_add) {
  const auto sum = spectrum.sum(-1, true);
  const auto floored = (spectrum / (eps_add ? sum + eps : sum.clamp_min(eps))).clamp_min(kDistributionFloor);
  return floored / floored.sum(-1, true);
}

LossTerms spectral_loss_reference(const torch::Tensor& descriptor, const torch::Tensor& weights,
                                  const SpectralTarget& t) {
  const auto distance = ((descriptor.unsqueeze(1) - t.mean).square() * t.precision).sum(-1);  // [B, n]
  const auto p =
      floored_distribution(descriptor.narrow(1, t.angular_begin, t.angular.size(1)), t.eps, t.eps_add).unsqueeze(1);
  const auto divergence = ((p - t.angular) * (p.log() - t.log_angular)).sum(-1) * t.kl_factor;  // [B, n]
  auto weight = at::full({descriptor.size(0)}, t.fixed_weight, weights.options());
  if (t.adaptive) weight = (-std::get<0>(distance.min(1)) / t.tau).exp();
  if (!t.confidence_moves) weight = weight.detach();
  const auto per_sample = weight * (weights * (distance + t.lambda_ang * divergence)).sum(1);
  return {distance.detach(), divergence.detach(), weight.detach(), per_sample.detach(), per_sample.mean()};
}

}  // namespace asr
