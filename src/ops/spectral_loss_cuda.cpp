#include "ops/cuda_tensors.h"
#include "ops/descriptor_cuda.h"
#include "ops/spectral_loss.h"
#include "tensor/record.h"

namespace asr {

LossTerms spectral_loss_cuda(const torch::Tensor& descriptor, const torch::Tensor& weights,
                             const SpectralTarget& target) {
  const bool with_grad = needs_gradient({descriptor});
  LossTerms out;
  torch::Tensor grad;
  {
    at::NoGradGuard no_grad;
    const auto phi = descriptor.detach().contiguous(), share = weights.detach().contiguous();
    const int64_t B = phi.size(0), n = target.mean.size(0);
    const auto kind = phi.options();
    out.distance = torch::empty({B, n}, kind);
    out.divergence = torch::empty({B, n}, kind);
    out.weight = torch::empty({B}, kind);
    out.per_sample = torch::empty({B}, kind);
    out.loss = torch::empty({}, kind);
    if (with_grad) grad = torch::empty(phi.sizes(), kind);
    cuda::LossShape shape{};
    shape.batch = static_cast<int>(B);
    shape.prototypes = static_cast<int>(n);
    shape.size = static_cast<int>(phi.size(1));
    shape.bins = static_cast<int>(target.angular.size(1));
    shape.angular_begin = static_cast<int>(target.angular_begin);
    shape.lambda = static_cast<float>(target.lambda_ang);
    shape.kl_factor = static_cast<float>(target.kl_factor);
    shape.tau = static_cast<float>(target.tau);
    shape.fixed_weight = static_cast<float>(target.fixed_weight);
    shape.eps = static_cast<float>(target.eps);
    shape.floor = static_cast<float>(kDistributionFloor);
    shape.eps_add = target.eps_add;
    shape.adaptive = target.adaptive;
    shape.confidence_moves = target.confidence_moves;
    cuda::LossArrays of{};
    of.descriptor = phi.data_ptr<float>();
    of.share = share.data_ptr<float>();
    of.mean = target.mean.data_ptr<float>();
    of.precision = target.precision.data_ptr<float>();
    of.angular = target.angular.data_ptr<float>();
    of.log_angular = target.log_angular.data_ptr<float>();
    of.distance = out.distance.data_ptr<float>();
    of.divergence = out.divergence.data_ptr<float>();
    of.weight = out.weight.data_ptr<float>();
    of.per_sample = out.per_sample.data_ptr<float>();
    of.loss = out.loss.data_ptr<float>();
    if (with_grad) of.grad = grad.data_ptr<float>();
    cuda::spectral_loss(shape, of, stream_of(phi));
  }
  if (with_grad) with_gradients("the spectral loss", out.loss, {descriptor}, {grad});
  return out;
}

}  // namespace asr
