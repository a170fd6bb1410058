#include "adapters/made_slot.h"

#include <cmath>

namespace asr {
namespace {

at::TensorOptions adapter_options(const Linear& linear) {
  const bool few_bits = linear.weight.element_size() < 4;
  return linear.weight.options().dtype(few_bits ? at::kFloat : linear.weight.scalar_type()).requires_grad(false);
}

Gate made_gate(const GateLayout& layout, const Routers& routers) {
  Gate out;
  out.kind = layout.kind;
  out.reads = layout.reads;
  out.top_k = layout.top_k;
  out.router_share = layout.router_share;
  if (layout.kind == GateKind::router) out.router = routers.back();
  return out;
}

}  // namespace

void set_both_gates(SlotAtSite& slot, const SiteLayout& site, const Routers& routers) {
  slot.training = made_gate(site.training, routers);
  slot.answering = made_gate(site.answering, routers);
  if (routers.size() > 1) slot.answering.earlier_routers.assign(routers.begin(), routers.end() - 1);
}

bool wants_router(const SiteLayout& site) {
  return site.training.kind == GateKind::router || site.answering.kind == GateKind::router;
}

// As a torch.nn.Linear begins, which the routers of published methods are.
torch::Tensor new_router(const Linear& linear, int64_t experts, at::Generator& generator) {
  const int64_t in = linear.weight.size(1);
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const auto unit = at::rand({experts, in}, generator, at::CPU(at::kFloat));
  return ((unit * 2 - 1) * bound).to(adapter_options(linear)).requires_grad_();
}

SlotAtSite made_slot(const Linear& linear, const SiteLayout& site, at::Generator& generator) {
  SlotAtSite out;
  const auto options = adapter_options(linear);
  if (site.full) {
    out.full_weight = base_weight(linear).detach().to(options).clone().requires_grad_();
    return out;
  }
  for (int64_t e = 0; e < site.experts; ++e) {
    auto expert = make_expert(linear, site.rank, 1, generator);
    if (site.spread > 0) {
      at::NoGradGuard no_grad;
      expert.a.mul_(site.spread * std::sqrt(static_cast<double>(linear.weight.size(1))));
    }
    if (site.share_a && e > 0) expert.a = out.experts[0].a;
    expert.scale = site.scale;
    out.experts.push_back(std::move(expert));
  }
  Routers routers;
  for (int64_t i = 0; wants_router(site) && i < site.routers; ++i)
    routers.push_back(new_router(linear, site.experts, generator));
  set_both_gates(out, site, routers);
  return out;
}

Routers routers_of(const SlotAtSite& slot) {
  auto out = slot.answering.earlier_routers;
  const auto& newest = slot.training.router.defined() ? slot.training.router : slot.answering.router;
  if (newest.defined()) out.push_back(newest);
  return out;
}

}  // namespace asr
