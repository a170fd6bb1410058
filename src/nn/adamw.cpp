#include "nn/adamw.h"

#include <cmath>

#include "base/error.h"

namespace asr {

AdamW::AdamW(std::vector<torch::Tensor> parameters, const AdamWOptions& options)
    : AdamW(std::vector<AdamWGroup>{{std::move(parameters)}}, options) {}

AdamW::AdamW(const std::vector<AdamWGroup>& groups, const AdamWOptions& options) : options_(options) {
  int64_t count = 0;
  for (const auto& group : groups) {
    Stretch stretch{count, 0, group.learning_rate, group.weight_decay < 0 ? options.weight_decay : group.weight_decay};
    for (const auto& p : group.parameters) {
      parameters_.push_back(p);
      stretch.size += p.numel();
    }
    count += stretch.size;
    if (stretch.size > 0) stretches_.push_back(stretch);
  }
  check(!parameters_.empty(), "there is nothing to train");
  at::NoGradGuard no_grad;
  flat_ = at::empty({count}, parameters_[0].options().requires_grad(false));
  gradient_ = at::zeros_like(flat_);
  first = at::zeros_like(flat_);
  second = at::zeros_like(flat_);
  int64_t at_entry = 0;
  for (auto& p : parameters_) {
    const auto view = [&](const torch::Tensor& whole) { return whole.narrow(0, at_entry, p.numel()).view(p.sizes()); };
    view(flat_).copy_(p);
    p.set_data(view(flat_));
    p.mutable_grad() = view(gradient_);  // the backward pass adds in place
    at_entry += p.numel();
  }
}

void AdamW::zero_grad() {
  gradient_.zero_();
}

torch::Tensor AdamW::clip(double largest_norm) {
  const auto norm = gradient_.norm();
  // No look at the value here: a GPU would have to be waited for.
  if (largest_norm > 0) gradient_.mul_((largest_norm / (norm + 1e-6)).clamp_max(1.0));
  return norm;
}

void AdamW::step(double learning_rate, double schedule) {
  at::NoGradGuard no_grad;
  ++steps;
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(steps)),
               correction2 = 1 - std::pow(options_.beta2, static_cast<double>(steps));
  first.mul_(options_.beta1).add_(gradient_, 1 - options_.beta1);
  second.mul_(options_.beta2).addcmul_(gradient_, gradient_, 1 - options_.beta2);
  const auto divisor = (second / correction2).sqrt_().add_(options_.eps);
  for (const auto& stretch : stretches_) {
    const double rate = stretch.learning_rate > 0 ? stretch.learning_rate * schedule : learning_rate;
    const auto cut = [&](const torch::Tensor& whole) { return whole.narrow(0, stretch.begin, stretch.size); };
    auto values = cut(flat_);
    if (stretch.weight_decay > 0) values.mul_(1 - rate * stretch.weight_decay);
    values.addcdiv_(cut(first), cut(divisor), -rate / correction1);
  }
}

double cosine_rate(double peak, int64_t step, int64_t total, int64_t warmup) {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double done = static_cast<double>(step - warmup) / static_cast<double>(std::max<int64_t>(1, total - warmup));
  return peak * 0.5 * (1 + std::cos(M_PI * std::min(1.0, done)));
}

}  // namespace asr
