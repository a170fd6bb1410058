#include "spectral/spectral_loss.h"

#include "base/error.h"
#include "ops/pick_columns.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

void check_prototypes(const PrototypeTensors& p, const Options& options) {
  const int64_t n = p.size(), M = options.spectral.angular_bins;
  const bool fits = p.mean.defined() && p.mean.dim() == 2 && options.spectral.fits(p.mean.size(1));
  const int64_t D = fits ? p.mean.size(1) : options.spectral.dim();
  check(fits || options.spectral.heads == Heads::average, "memory mean does not hold ",
        expected_numbers(options.spectral), " numbers a prototype, as spectral.heads=kept has them");
  const auto expect = [&](const torch::Tensor& tensor, const char* name, std::vector<int64_t> shape) {
    check(tensor.defined() && tensor.sizes() == at::IntArrayRef(shape), "memory ", name, " has shape ",
          shape_text(tensor.defined() ? tensor.sizes() : at::IntArrayRef()), "; expected ", shape_text(shape),
          " for these options");
    check(tensor.isfinite().all().item<bool>(), "memory ", name, " holds NaN or infinite values");
  };
  expect(p.mean, "mean", {n, D});
  expect(p.variance, "variance", {n, D});
  expect(p.angular, "angular", {n, M});
  check(p.variance.ge(0).all().item<bool>(), "memory variance holds negative values");
  check(!p.count.defined() || (p.count.numel() == n && p.count.ge(1).all().item<bool>()),
        "memory counts must be one a prototype, at least 1");
  check(p.angular.ge(0).all().item<bool>() && p.angular.sum(1).gt(0).all().item<bool>(),
        "memory angular spectra must be >= 0 and not all zero");
}

void check_skills(const torch::Tensor& skill) {
  check(skill.dim() == 1, "memory skill indices have shape ", shape_text(skill.sizes()), "; expected [n]");
  if (skill.numel() == 0) return;
  const auto sorted = std::get<0>(skill.to(at::kLong).cpu().sort());
  check(sorted[0].item<int64_t>() >= 0, "memory holds skill ", sorted[0].item<int64_t>(), "; indices start at 0");
  check(skill.numel() == 1 || sorted.diff().gt(0).all().item<bool>(), "memory holds two prototypes of one skill");
}

void check_maps(const PrototypeTensors& p) {
  check(p.map.defined() && p.map.dim() == 3 && p.map.size(0) == p.size() && (p.size() == 0 || p.map.numel() > 0),
        "asr.spectrum=raw needs prototypes of mean maps [n, H, W]; update the memory with this option from the first "
        "stage on");
  check(p.map.isfinite().all().item<bool>() && p.map.ge(0).all().item<bool>() &&
            p.map.sum({1, 2}).gt(0).all().item<bool>(),
        "memory maps must be finite, >= 0 and not all zero");
}

}  // namespace

void check_posterior(const torch::Tensor& posterior, SkillMode mode) {
  check(posterior.dim() == 2 && posterior.numel() > 0, "posterior has shape ", shape_text(posterior.sizes()),
        "; expected [B, skills]");
  const auto p = posterior.to(at::kDouble);
  const auto bad =
      p.isfinite().logical_and(p.ge(0)).all(1).logical_and((p.sum(1) - 1).abs().le(1e-3)).logical_not().nonzero();
  check(bad.numel() == 0, "posterior of sample ", bad.numel() ? bad[0].item<int64_t>() : 0,
        " is no distribution; its entries must be >= 0 and sum to 1");
  if (mode == SkillMode::oracle)
    check(p.amax(1).eq(1).all().item<bool>(),
          "asr.skill=oracle needs one-hot posteriors; use soft or hard for a parser's");
}

torch::Tensor used_dimensions(Spectrum spectrum, const SpectralOptions& o, int64_t numbers) {
  auto head = torch::ones({o.head_dim()}, at::kDouble);
  if (spectrum == Spectrum::radial) head.slice(0, o.radial_bins).fill_(0);
  if (spectrum == Spectrum::angular) {
    head.slice(0, 0, o.radial_bins).fill_(0);
    head.slice(0, o.radial_bins + 2 * o.angular_bins).fill_(0);
  }
  if (o.heads == Heads::average) return at::cat({head, head});
  const int64_t together = o.dim();
  return at::cat({torch::zeros({together}, at::kDouble), head.repeat({(numbers - together) / o.head_dim()})});
}

torch::Tensor variances_as_read(const PrototypeTensors& prototypes, const Options& options) {
  auto variance = prototypes.variance.to(at::kCPU, at::kDouble);
  const double n0 = options.memory.shrinkage;
  if (n0 > 0 && prototypes.count.defined()) {
    const auto count = prototypes.count.to(at::kCPU, at::kDouble).unsqueeze(1);
    const auto pooled = (count * variance).sum(0, true) / count.sum();
    variance = (count * variance + n0 * pooled) / (count + n0);
  }
  variance = variance.clamp_min(options.spectral.covariance_floor);
  check(variance.gt(0).all().item<bool>(), "memory variance holds zeros; set spectral.covariance_floor above 0");
  if (options.asr.prototypes == Prototypes::mean) variance = at::full_like(variance, variance.mean().item<double>());
  return variance;
}

SpectralLoss::SpectralLoss(const PrototypeTensors& prototypes, const Options& options, const at::TensorOptions& compute,
                           Implementation implementation)
    : options_(options), compute_(compute.requires_grad(false)), implementation_(implementation) {
  const auto& s = options.spectral;
  const auto& a = options.asr;
  if (prototypes.skill.defined()) check_skills(prototypes.skill);
  if (prototypes.size() > 0 || prototypes.mean.defined()) {
    if (a.spectrum == Spectrum::raw)
      check_maps(prototypes);
    else
      check_prototypes(prototypes, options);
  }
  if (prototypes.size() == 0) return;
  skill_ = prototypes.skill.to(at::kLong).cpu();
  last_skill_ = skill_.max().item<int64_t>();
  if (a.spectrum == Spectrum::raw) {
    map_ = prototypes.map.to(compute_);
    return;
  }
  const auto used = used_dimensions(a.spectrum, s, prototypes.mean.size(1));
  auto precision = used / variances_as_read(prototypes, options);
  if (s.mahalanobis == Mahalanobis::mean) precision = precision / used.sum();

  target_.mean = prototypes.mean.to(compute_).contiguous();
  target_.precision = precision.to(compute_).contiguous();
  target_.eps = s.eps;
  target_.eps_add = s.eps_mode == EpsMode::add;
  target_.angular = floored_distribution(prototypes.angular.to(compute_), target_.eps, target_.eps_add).contiguous();
  target_.log_angular = target_.angular.log();
  target_.lambda_ang = a.spectrum == Spectrum::radial ? 0 : s.lambda_ang;
  target_.tau = s.tau_mah;
  target_.kl_factor = s.kl == KlForm::half ? 0.5 : 1;
  const auto confidence = a.weighting == Weighting::confidence ? s.confidence : Confidence::one;
  target_.adaptive = confidence != Confidence::one;
  target_.confidence_moves = confidence == Confidence::gradient;
  target_.fixed_weight = a.weighting == Weighting::fixed ? a.fixed_weight : 1;
  target_.angular_begin = s.radial_bins;
}

torch::Tensor SpectralLoss::skill_weights(const torch::Tensor& posterior) const {
  const int64_t n = skill_.size(0), batch = posterior.size(0);
  if (options_.asr.prototypes == Prototypes::global) return torch::ones({batch, n}, compute_);
  if (options_.asr.prototypes == Prototypes::task)
    return torch::full({batch, n}, 1.0 / static_cast<double>(n), compute_);
  check(last_skill_ < posterior.size(1), "memory holds skill ", last_skill_, " but the posterior has ",
        posterior.size(1), " skills");
  auto p = posterior.to(compute_);
  if (options_.asr.skill == SkillMode::hard) p = torch::zeros_like(p).scatter_(1, p.argmax(1, true), 1);
  auto weights = pick_columns(p, skill_);
  if (options_.spectral.unseen_skills == UnseenSkills::renormalize) {
    const auto sum = weights.sum(1, true);
    weights =
        at::where(sum.gt(0), weights / at::where(sum.gt(0), sum, torch::ones_like(sum)), torch::zeros_like(weights));
  }
  return weights.contiguous();
}

LossTerms SpectralLoss::empty(const torch::Tensor& like, int64_t batch) const {
  LossTerms out;
  out.distance = out.divergence = torch::zeros({batch, 0}, compute_);
  out.weight = torch::ones({batch}, compute_);
  out.per_sample = torch::zeros({batch}, compute_);
  out.loss = like.requires_grad() ? (like * 0).sum() : torch::zeros({}, compute_);
  return out;
}

LossTerms SpectralLoss::operator()(const torch::Tensor& descriptor, const torch::Tensor& posterior) const {
  check(options_.asr.spectrum != Spectrum::raw, "asr.spectrum=raw matches maps, not descriptors");
  const auto& s = options_.spectral;
  const bool fits = descriptor.dim() == 2 && s.fits(descriptor.size(1)) &&
                    (!skill_.defined() || descriptor.size(1) == target_.mean.size(1));
  check(fits, "descriptor has shape ", shape_text(descriptor.sizes()), "; expected [B, ",
        skill_.defined() ? std::to_string(target_.mean.size(1)) : expected_numbers(s), "]");
  check(posterior.dim() == 2 && posterior.size(0) == descriptor.size(0), "posterior has shape ",
        shape_text(posterior.sizes()), " for ", descriptor.size(0), " samples");
  if (!skill_.defined()) return empty(descriptor, descriptor.size(0));
  return spectral_loss(descriptor, skill_weights(posterior), target_, implementation_);
}

LossTerms SpectralLoss::raw(const torch::Tensor& maps, const torch::Tensor& posterior) const {
  check(options_.asr.spectrum == Spectrum::raw, "raw maps are matched only with asr.spectrum=raw");
  if (!skill_.defined()) return empty(maps, maps.size(0));
  check(maps.dim() == 4 && maps.size(2) == map_.size(1) && maps.size(3) == map_.size(2), "maps have shape ",
        shape_text(maps.sizes()), " but the memory holds maps of ", map_.size(1), "x", map_.size(2));
  const auto mean_map = maps.mean(1);                                                                     // [B, H, W]
  const auto distance = (mean_map.unsqueeze(1) - map_).square().sum({2, 3}) / map_.square().sum({1, 2});  // [B, n]
  const auto per_sample = (skill_weights(posterior) * distance).sum(1);
  return {distance.detach(), torch::zeros_like(distance).detach(), torch::ones({maps.size(0)}, compute_),
          per_sample.detach(), per_sample.mean()};
}

}  // namespace asr
