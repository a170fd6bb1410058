#include "methods/terms/balanced_objective.h"

#include "base/error.h"

namespace asr {
namespace {

// The orthogonal matrix nearest to this one.
torch::Tensor polar_factor(const torch::Tensor& matrix) {
  const auto [left, values, right] = at::linalg_svd(matrix, /*full_matrices=*/false);
  return left.mm(right);
}

torch::Tensor unit_features(const torch::Tensor& rows) {
  return rows / rows.norm(2, 1, true).clamp_min(1e-12);
}

}  // namespace

torch::Tensor orthogonal_factor(const torch::Tensor& matrix) {
  if (matrix.size(0) < matrix.size(1)) return orthogonal_factor(matrix.t()).t().contiguous();
  const auto [q, r] = at::linalg_qr(matrix);
  const auto diagonal = r.diagonal();
  return q * at::where(diagonal.lt(0), -at::ones_like(diagonal), at::ones_like(diagonal));
}

BalancedObjective::BalancedObjective(const Backbone& model, std::vector<std::string> answers)
    : ListObjective(std::move(answers)) {
  check(size() >= 2, "a balanced classifier needs two answers to choose from; the stream has ", size());
  at::NoGradGuard no_grad;
  rotation_ = polar_factor(mean_embeddings(model).t()).contiguous().requires_grad_();
  scale_ = at::ones({rotation_.size(0)}, rotation_.options().requires_grad(false)).requires_grad_();
  shift_ = at::zeros({rotation_.size(0)}, rotation_.options().requires_grad(false)).requires_grad_();
}

torch::Tensor BalancedObjective::logits(const Output& output, const std::vector<torch::Tensor>& parameters) const {
  const auto turned = output.state.to(at::kFloat).mm(parameters.empty() ? rotation_ : parameters[0]);  // h U
  return turned - turned.mean(1, true);                                                                // h U E
}

torch::Tensor BalancedObjective::targets(const SampleBatch& batch) const {
  auto out = at::zeros({batch.size(), size()}, at::kFloat);
  for (size_t b = 0; b < batch.info.size(); ++b)
    for (const auto& [answer, worth] : answer_scores(batch.info[b]))
      if (const int64_t place = place_of(answer); place >= 0) out[static_cast<int64_t>(b)][place] = worth;
  return out.to(rotation_.device());
}

torch::Tensor BalancedObjective::loss(const Output& output, const SampleBatch& batch,
                                      const torch::Tensor& weights) const {
  const auto each = -(targets(batch) * logits(output, {}).log_softmax(1)).sum(1);
  return (weights.defined() ? each * weights : each).mean();
}

NamedParameters BalancedObjective::parameters() const {
  return {{"balanced_head.rotation", rotation_}, {"balanced_head.scale", scale_}, {"balanced_head.shift", shift_}};
}

torch::Tensor BalancedObjective::prototypes() const {
  return (rotation_ - rotation_.mean(1, true)).t();
}

torch::Tensor BalancedObjective::features(const torch::Tensor& states) const {
  constexpr double kVarianceFloor = 1e-5;
  const auto centered = states - states.mean(0, true);
  const auto variance = centered.square().mean(0, true);
  return unit_features(centered / (variance + kVarianceFloor).sqrt() * scale_ + shift_);
}

torch::Tensor BalancedObjective::alignment(const torch::Tensor& states, AlignmentCost cost,
                                           const SinkhornOptions& sinkhorn) const {
  const auto found = features(states), wanted = prototypes();
  if (cost == AlignmentCost::cosine) return transport_cost(1 - found.mm(unit_features(wanted).t()), sinkhorn);
  const auto squares = found.square().sum(1, true) - 2 * found.mm(wanted.t()) + wanted.square().sum(1).unsqueeze(0);
  return transport_cost(squares / static_cast<double>(wanted.size(1)), sinkhorn);
}

void BalancedObjective::retract() {
  at::NoGradGuard no_grad;
  rotation_.copy_(orthogonal_factor(rotation_));
}

}  // namespace asr
