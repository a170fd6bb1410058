#include "ops/spectral_loss.h"

namespace asr {

LossTerms spectral_loss(const torch::Tensor& descriptor, const torch::Tensor& weights, const SpectralTarget& target,
                        Implementation implementation) {
  constexpr Kernels kernels{kSingleAndDouble, {}};
  const bool kernel = path_for(implementation, path_for(kernels, descriptor, weights, target.mean)) == Path::cpu;
  return kernel ? spectral_loss_cpu(descriptor, weights, target) : spectral_loss_reference(descriptor, weights, target);
}

}  // namespace asr
