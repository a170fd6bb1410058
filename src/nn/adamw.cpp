#include "nn/adamw.h"

#include <cmath>

#include "base/error.h"

namespace asr {

AdamW::AdamW(std::vector<torch::Tensor> parameters, const AdamWOptions& options)
    : options_(options), parameters_(std::move(parameters)) {
  check(!parameters_.empty(), "there is nothing to train");
  at::NoGradGuard no_grad;
  int64_t count = 0;
  for (const auto& p : parameters_) count += p.numel();
  flat_ = at::empty({count}, parameters_[0].options().requires_grad(false));
  gradient_ = at::zeros_like(flat_), first = at::zeros_like(flat_), second = at::zeros_like(flat_);
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

double AdamW::clip(double largest_norm) {
  const double norm = gradient_.norm().item<double>();
  if (largest_norm > 0 && norm > largest_norm) gradient_.mul_(largest_norm / (norm + 1e-6));
  return norm;
}

void AdamW::step(double learning_rate) {
  at::NoGradGuard no_grad;
  ++steps;
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(steps)),
               correction2 = 1 - std::pow(options_.beta2, static_cast<double>(steps));
  first.mul_(options_.beta1).add_(gradient_, 1 - options_.beta1);
  second.mul_(options_.beta2).addcmul_(gradient_, gradient_, 1 - options_.beta2);
  if (options_.weight_decay > 0) flat_.mul_(1 - learning_rate * options_.weight_decay);
  flat_.addcdiv_(first, (second / correction2).sqrt_().add_(options_.eps), -learning_rate / correction1);
}

double cosine_rate(double peak, int64_t step, int64_t total, int64_t warmup) {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double done = static_cast<double>(step - warmup) / static_cast<double>(std::max<int64_t>(1, total - warmup));
  return peak * 0.5 * (1 + std::cos(M_PI * std::min(1.0, done)));
}

}  // namespace asr
