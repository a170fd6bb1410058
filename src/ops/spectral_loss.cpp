#include "ops/spectral_loss.h"

namespace asr {

LossTerms spectral_loss(const torch::Tensor& descriptor, const torch::Tensor& weights, const SpectralTarget& target,
                        Implementation implementation) {
  constexpr Kernels kernels{kSingleAndDouble, {}, kSingle};
  const auto path = path_for(implementation, path_for(kernels, descriptor, weights, target.mean));
  if (path == Path::cpu) return spectral_loss_cpu(descriptor, weights, target);
  if (path == Path::cuda && target.angular.size(1) <= 32) return spectral_loss_cuda(descriptor, weights, target);
  return spectral_loss_reference(descriptor, weights, target);
}

}  // namespace asr
