// The loss of small tensors as one autograd function: a step has a few thousand numbers here, so a graph of forty
// operators would cost more than the arithmetic. The gradient is formed in the forward pass and scaled in the
// backward one.
#include <cmath>

#include "spectral/spectral_loss.h"
#include "tensor/record.h"

namespace asr {
namespace {

constexpr double kFloor = 1e-8;

// The angular distribution of one sample; its memory serves the next.
template <class Real>
struct AngularSide {
  std::vector<Real> p, log_p, raw;  // floored distribution, its logarithm, before the floor
  std::vector<Real> before;         // working memory of pull()
  Real denominator = 1, floored_sum = 1;
  bool moves = true;

  explicit AngularSide(int64_t bins) : p(bins), log_p(bins), raw(bins), before(bins) {}

  void read(const Real* spectrum, double eps, bool eps_add) {
    const auto bins = static_cast<int64_t>(p.size());
    Real sum = 0;
    for (int64_t m = 0; m < bins; ++m) sum += spectrum[m];
    const auto guard = static_cast<Real>(eps);
    denominator = eps_add ? sum + guard : std::max(sum, guard);
    moves = eps_add || sum >= guard;
    floored_sum = 0;
    for (int64_t m = 0; m < bins; ++m) {
      raw[m] = spectrum[m] / denominator;
      floored_sum += p[m] = std::max(raw[m], static_cast<Real>(kFloor));
    }
    for (int64_t m = 0; m < bins; ++m) p[m] /= floored_sum, log_p[m] = std::log(p[m]);
  }

  // Adds dL/dspectrum given c = dL/dp.
  void pull(const std::vector<Real>& c, Real* grad) {
    const auto bins = static_cast<int64_t>(p.size());
    Real along = 0, along_raw = 0;
    for (int64_t m = 0; m < bins; ++m) along += c[m] * p[m];
    for (int64_t m = 0; m < bins; ++m)
      before[m] = raw[m] >= static_cast<Real>(kFloor) ? (c[m] - along) / floored_sum : Real(0);
    if (moves)
      for (int64_t m = 0; m < bins; ++m) along_raw += before[m] * raw[m];
    for (int64_t m = 0; m < bins; ++m) grad[m] += (before[m] - along_raw) / denominator;
  }
};

template <class Real>
class SampleLoss {
 public:
  SampleLoss(const SpectralLoss::Target& target)
      : t_(target),
        n_(target.mean.size(0)),
        D_(target.mean.size(1)),
        M_(target.angular.size(1)),
        mean_(target.mean.data_ptr<Real>()),
        precision_(target.precision.data_ptr<Real>()),
        angular_(target.angular.data_ptr<Real>()),
        log_angular_(target.log_angular.data_ptr<Real>()),
        side_(M_),
        c_(M_),
        inverse_(M_) {}

  // Fills one sample's rows; `grad` (or null) gets dL/dphi for a batch mean over `batch` samples.
  void run(const Real* phi, const Real* pi, int64_t batch, Real* distance, Real* divergence, Real* weight,
           Real* per_sample, Real* grad) {
    side_.read(phi + t_.angular_begin, t_.eps, t_.eps_add);
    const auto lambda = static_cast<Real>(t_.lambda_ang), factor = static_cast<Real>(t_.kl_factor);
    Real total = 0;
    int64_t nearest = 0;
    for (int64_t s = 0; s < n_; ++s) {
      Real kl = 0;
      const Real d2 = squared_distance(phi, mean_ + s * D_, precision_ + s * D_);
      for (int64_t m = 0; m < M_; ++m)
        kl += (side_.p[m] - angular_[s * M_ + m]) * (side_.log_p[m] - log_angular_[s * M_ + m]);
      distance[s] = d2, divergence[s] = kl * factor;
      total += pi[s] * (d2 + lambda * divergence[s]);
      if (d2 < distance[nearest]) nearest = s;
    }
    const bool adaptive = t_.confidence != Confidence::one;
    *weight = adaptive ? std::exp(-distance[nearest] / static_cast<Real>(t_.tau)) : static_cast<Real>(t_.fixed_weight);
    *per_sample = *weight * total;
    if (!grad) return;
    std::fill(grad, grad + D_, Real(0));
    const Real scale = *weight / static_cast<Real>(batch);
    for (int64_t s = 0; s < n_; ++s) add_distance(phi, s, scale * pi[s], grad);
    if (t_.confidence == Confidence::gradient)
      add_distance(phi, nearest, -scale * total / static_cast<Real>(t_.tau), grad);
    if (lambda != 0) add_divergence(pi, scale * lambda * factor, grad);
  }

 private:
  Real squared_distance(const Real* phi, const Real* mean, const Real* precision) const {
    constexpr int64_t lanes = 8;  // sums that do not wait for one another
    Real part[lanes] = {}, sum = 0;
    int64_t i = 0;
    for (; i + lanes <= D_; i += lanes)
      for (int64_t l = 0; l < lanes; ++l) {
        const Real x = phi[i + l] - mean[i + l];
        part[l] += x * x * precision[i + l];
      }
    for (; i < D_; ++i) sum += (phi[i] - mean[i]) * (phi[i] - mean[i]) * precision[i];
    for (const Real p : part) sum += p;
    return sum;
  }

  void add_distance(const Real* phi, int64_t s, Real scale, Real* grad) const {
    for (int64_t i = 0; i < D_; ++i) grad[i] += 2 * scale * (phi[i] - mean_[s * D_ + i]) * precision_[s * D_ + i];
  }

  void add_divergence(const Real* pi, Real scale, Real* grad) {
    std::fill(c_.begin(), c_.end(), Real(0));
    for (int64_t m = 0; m < M_; ++m) inverse_[m] = 1 / side_.p[m];
    for (int64_t s = 0; s < n_; ++s) {
      const Real *q = angular_ + s * M_, *log_q = log_angular_ + s * M_, share = scale * pi[s];
      for (int64_t m = 0; m < M_; ++m) c_[m] += share * (side_.log_p[m] - log_q[m] + (side_.p[m] - q[m]) * inverse_[m]);
    }
    side_.pull(c_, grad + t_.angular_begin);
  }

  const SpectralLoss::Target& t_;
  int64_t n_, D_, M_;
  const Real *mean_, *precision_, *angular_, *log_angular_;
  AngularSide<Real> side_;
  std::vector<Real> c_, inverse_;
};

struct Computed {
  LossTerms terms;
  torch::Tensor grad;
};

template <class Real>
Computed compute(const torch::Tensor& descriptor, const torch::Tensor& weights, const SpectralLoss::Target& target,
                 bool with_grad) {
  const auto phi = descriptor.contiguous();
  const auto options = phi.options().requires_grad(false);
  const int64_t batch = phi.size(0), D = phi.size(1), n = target.mean.size(0);
  Computed out;
  auto& terms = out.terms;
  terms.distance = torch::empty({batch, n}, options), terms.divergence = torch::empty({batch, n}, options);
  terms.weight = torch::empty({batch}, options), terms.per_sample = torch::empty({batch}, options);
  if (with_grad) out.grad = torch::empty({batch, D}, options);
  SampleLoss<Real> sample(target);
  Real sum = 0;
  for (int64_t b = 0; b < batch; ++b) {
    Real* per_sample = terms.per_sample.data_ptr<Real>() + b;
    sample.run(phi.data_ptr<Real>() + b * D, weights.data_ptr<Real>() + b * n, batch,
               terms.distance.data_ptr<Real>() + b * n, terms.divergence.data_ptr<Real>() + b * n,
               terms.weight.data_ptr<Real>() + b, per_sample, with_grad ? out.grad.data_ptr<Real>() + b * D : nullptr);
    sum += *per_sample;
  }
  terms.loss = torch::empty({}, options);
  *terms.loss.data_ptr<Real>() = sum / static_cast<Real>(batch);
  return out;
}

}  // namespace

LossTerms spectral_loss_fused(const torch::Tensor& descriptor, const torch::Tensor& weights,
                              const SpectralLoss::Target& target) {
  const bool with_grad = needs_gradient({descriptor});
  Computed out;
  {
    at::NoGradGuard no_grad;
    out = descriptor.scalar_type() == at::kFloat ? compute<float>(descriptor, weights, target, with_grad)
                                                 : compute<double>(descriptor, weights, target, with_grad);
  }
  if (with_grad) with_gradients("the fused spectral loss", out.terms.loss, {descriptor}, {out.grad});
  return out.terms;
}

}  // namespace asr
