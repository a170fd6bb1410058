// The loss of small tensors as one autograd function: a step has a few thousand numbers here, so a graph of forty
// operators would cost more than the arithmetic. The gradient is formed in the forward pass and scaled in the
// backward one.
#include "ops/kernel/loss_kernel.h"
#include "ops/spectral_loss.h"
#include "tensor/cpu_kernel.h"
#include "tensor/memory.h"
#include "tensor/record.h"

namespace asr {
namespace {

template <class Real>
kernel::LossFunctions<Real> choose_loss_kernel() {
#ifdef ASR_HAVE_KERNEL_avx2
  if (cpu_kernel() >= CpuKernel::avx2) return kernel::avx2::loss_functions<Real>();
#endif
  return kernel::portable::loss_functions<Real>();
}

template <class Real>
kernel::LossTarget<Real> target_of(const SpectralTarget& t) {
  kernel::LossTarget<Real> out{};
  out.prototypes = static_cast<int>(t.mean.size(0));
  out.size = static_cast<int>(t.mean.size(1));
  out.bins = static_cast<int>(t.angular.size(1));
  out.angular_begin = static_cast<int>(t.angular_begin);
  out.mean = t.mean.data_ptr<Real>();
  out.precision = t.precision.data_ptr<Real>();
  out.angular = t.angular.data_ptr<Real>();
  out.log_angular = t.log_angular.data_ptr<Real>();
  out.lambda = static_cast<Real>(t.lambda_ang);
  out.kl_factor = static_cast<Real>(t.kl_factor);
  out.tau = static_cast<Real>(t.tau);
  out.fixed_weight = static_cast<Real>(t.fixed_weight);
  out.eps = static_cast<Real>(t.eps);
  out.eps_add = t.eps_add;
  out.floor = static_cast<Real>(kDistributionFloor);
  out.adaptive = t.adaptive;
  out.confidence_moves = t.confidence_moves;
  return out;
}

struct LossAndGrad {
  LossTerms terms;
  torch::Tensor grad;
};

template <class Real>
LossAndGrad loss_as(const torch::Tensor& descriptor, const torch::Tensor& weights, const SpectralTarget& target,
                    bool with_grad) {
  const auto phi = descriptor.contiguous();
  const auto options = phi.options().requires_grad(false);
  const int64_t batch = phi.size(0), D = phi.size(1), n = target.mean.size(0);
  LossAndGrad out;
  auto& terms = out.terms;
  terms.distance = torch::empty({batch, n}, options);
  terms.divergence = torch::empty({batch, n}, options);
  terms.weight = torch::empty({batch}, options);
  terms.per_sample = torch::empty({batch}, options);
  if (with_grad) out.grad = torch::empty({batch, D}, options);
  const auto functions = choose_loss_kernel<Real>();
  const auto prepared = target_of<Real>(target);
  const Memory<Real> scratch(static_cast<int64_t>(functions.scratch(prepared)));
  const Real *from = phi.data_ptr<Real>(), *share = weights.data_ptr<Real>();
  const kernel::LossOutput<Real> first{terms.distance.data_ptr<Real>(), terms.divergence.data_ptr<Real>(),
                                       terms.weight.data_ptr<Real>(), terms.per_sample.data_ptr<Real>(),
                                       with_grad ? out.grad.data_ptr<Real>() : nullptr};
  Real sum = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const kernel::LossInput<Real> in{
        .descriptor = from + b * D,
        .share = share + b * n,
        .batch = static_cast<int>(batch),
    };
    const kernel::LossOutput<Real> to{
        .distance = first.distance + b * n,
        .divergence = first.divergence + b * n,
        .weight = first.weight + b,
        .loss = first.loss + b,
        .grad = with_grad ? first.grad + b * D : nullptr,
    };
    functions.sample(prepared, in, to, scratch.get());
    sum += first.loss[b];
  }
  terms.loss = torch::empty({}, options);
  *terms.loss.data_ptr<Real>() = sum / static_cast<Real>(batch);
  return out;
}

}  // namespace

LossTerms spectral_loss_cpu(const torch::Tensor& descriptor, const torch::Tensor& weights,
                            const SpectralTarget& target) {
  const bool with_grad = needs_gradient({descriptor});
  LossAndGrad out;
  {
    at::NoGradGuard no_grad;
    out = descriptor.scalar_type() == at::kFloat ? loss_as<float>(descriptor, weights, target, with_grad)
                                                 : loss_as<double>(descriptor, weights, target, with_grad);
  }
  if (with_grad) with_gradients("the fused spectral loss", out.terms.loss, {descriptor}, {out.grad});
  return out.terms;
}

}  // namespace asr
