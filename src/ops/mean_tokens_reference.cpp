#include "ops/mean_tokens.h"

namespace asr {

torch::Tensor mean_tokens_reference(const torch::Tensor& x, const torch::Tensor& mask) {
  if (!mask.defined()) return x.mean(1);
  const auto weight = mask.to(x.scalar_type()).unsqueeze(-1);
  return (x * weight).sum(1) / weight.sum(1).clamp_min(1);
}

}  // namespace asr
