#include "nn/merged_weights.h"

#include "nn/gates.h"

namespace asr {
namespace {

// A pair's gate holds one number a column here.
torch::Tensor product_of(const LowRank& pair) {
  const auto b = pair.gate.defined() ? pair.b * pair.gate.view({1, -1}) : pair.b;
  return b.mm(pair.a) * pair.scale;
}

}  // namespace

bool weighs_rows_alike(const Linear& linear, const Pass& pass) {
  for (size_t k = 0; k < linear.slots.size(); ++k) {
    if (!(pass.slots >> k & 1) || linear.slots[k].experts.empty()) continue;
    const auto& gate = pass.answering ? linear.slots[k].answering : linear.slots[k].training;
    if (gate.kind == GateKind::router) return false;
    if (gate.kind != GateKind::given) continue;
    if (!pass.given || pass.given->count(k) == 0) return false;
    const auto& weights = pass.given->at(k);
    if (weights.dim() > 1 && weights.size(0) > 1) return false;
  }
  return true;
}

MergedWeights merged_weights(const std::vector<AdapterSite>& sites, const Pass& pass) {
  at::NoGradGuard no_grad;
  MergedWeights out;
  for (const auto& site : sites) {
    const auto& linear = *site.linear;
    if (!linear.has_experts(pass.slots) || !weighs_rows_alike(linear, pass)) continue;
    const auto kept = weight_in(linear, pass);
    if (kept.format != WeightFormat::plain) continue;  // a merged copy would lose what the format saves
    const auto& weight = kept.data;
    auto sum = weight.to(at::promote_types(weight.scalar_type(), at::kFloat), /*non_blocking=*/false, /*copy=*/true);
    const auto x = at::zeros({1, sum.size(1)}, sum.options());  // tells the gates a type and a device
    for (const auto& pair : active_experts(linear, x, pass)) sum.add_(product_of(pair));
    out[site.linear] = sum.to(weight.scalar_type());
  }
  return out;
}

}  // namespace asr
