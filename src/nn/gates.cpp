#include "nn/gates.h"

#include "base/error.h"

namespace asr {
namespace {

int64_t joined_rank(const SlotAtSite& slot) {
  int64_t sum = 0;
  for (const auto& expert : slot.experts) sum += expert.a.size(0);
  return sum;
}

const Gate& gate_of(const SlotAtSite& slot, const Pass& pass) {
  return pass.answering ? slot.answering : slot.training;
}

// A number per expert, or per row of x and expert, beside x: [1, ..., E] or [rows of x, 1, ..., E].
torch::Tensor along_rows(const torch::Tensor& weights, const torch::Tensor& x) {
  auto shape = std::vector<int64_t>(static_cast<size_t>(x.dim()), 1);
  shape.back() = weights.size(-1);
  if (weights.dim() == 2) shape.front() = weights.size(0);
  return weights.reshape(shape);
}

// The same of numbers per sample, whose rows of x may be several: tiles or patches.
torch::Tensor along_samples(const torch::Tensor& weights, const torch::Tensor& x, const Pass& pass) {
  if (weights.dim() == 1 || weights.size(0) == 1) return along_rows(weights, x);
  const bool several = pass.row_samples.defined() && pass.row_samples.size(0) == x.size(0);
  const auto rows = several ? weights.index_select(0, pass.row_samples) : weights;
  check(rows.size(0) == x.size(0), "a gate has weights for ", weights.size(0), " samples where a layer reads ",
        x.size(0), " rows; weights per sample cannot be used at this site");
  return along_rows(rows, x);
}

// The state that a router reads: [..., in] of every token, or [B, in] of a sequence.
torch::Tensor routed_state(const Gate& gate, const torch::Tensor& x, const Pass& pass) {
  if (gate.reads == RouterReads::token) return x;
  check(x.dim() == 3, "a router that reads the sequence stands where there is none");
  const auto& mask = pass.sequence_mask;
  const bool masked = mask.defined() && mask.size(0) == x.size(0) && mask.size(1) == x.size(1);
  if (gate.reads == RouterReads::first) {
    if (!masked) return x.select(1, 0);
    const auto first = mask.to(at::kLong).argmax(1).view({-1, 1, 1}).expand({-1, 1, x.size(2)});
    return x.gather(1, first).squeeze(1);
  }
  if (!masked) return x.mean(1);
  const auto real = mask.to(x.scalar_type()).unsqueeze(-1);
  return (x * real).sum(1) / real.sum(1).clamp_min(1);
}

torch::Tensor largest(const torch::Tensor& weights, int64_t count) {
  if (count == 0 || count >= weights.size(-1)) return weights;
  const auto places = std::get<1>(weights.topk(count, -1));
  return weights * at::zeros_like(weights).scatter_(-1, places, 1);
}

const torch::Tensor& given_to(size_t slot, const Pass& pass) {
  const bool there = pass.given && pass.given->count(slot);
  check(there, "slot ", slot, " is weighed by numbers that are given, and none were");
  return pass.given->at(slot);
}

torch::Tensor router_weights(const Gate& gate, size_t slot, const torch::Tensor& x, const Pass& pass) {
  const auto state = routed_state(gate, x, pass);
  if (gate.earlier_routers.empty())
    return largest(at::linear(state, gate.router.to(x.scalar_type())).softmax(-1), gate.top_k);
  auto routers = gate.earlier_routers;
  routers.push_back(gate.router);
  const auto count = static_cast<int64_t>(routers.size());
  const auto given = along_samples(given_to(slot, pass).to(x.options()), state, pass);  // [rows or 1, ..., R]
  check(given.size(-1) == count, "slot ", slot, " has ", count, " routers and was given ", given.size(-1), " weights");
  auto shape = state.sizes().vec();
  shape.back() = count;
  shape.push_back(gate.router.size(0));
  const auto scores = at::linear(state, at::cat(routers).to(x.scalar_type())).view(shape);  // [..., R, E]
  return (largest(scores.softmax(-1), gate.top_k) * given.unsqueeze(-1)).sum(-2);
}

// Weights of a slot's experts, ready to be spread over the rows of x. [..., E] or [..., R]
torch::Tensor slot_weights(const Linear& linear, size_t number, const torch::Tensor& x, const Pass& pass) {
  const auto& slot = linear.slots[number];
  const auto& gate = gate_of(slot, pass);
  if (gate.kind == GateKind::sum) return torch::ones({static_cast<int64_t>(slot.experts.size())}, x.options());
  torch::Tensor given, routed;
  if (gate.kind == GateKind::given || gate.router_share < 1) {
    given = along_samples(given_to(number, pass).to(x.options()), x, pass);
    const int64_t width = given.size(-1);
    check(width == static_cast<int64_t>(slot.experts.size()) || width == joined_rank(slot), "slot ", number, " has ",
          slot.experts.size(), " experts and was given ", width, " weights");
    if (gate.kind == GateKind::given) return given;
  }
  const bool sequence = gate.reads != RouterReads::token;
  const auto key = std::make_pair(static_cast<const void*>(&linear), number);
  const auto known = pass.latch && sequence ? pass.latch->weights.find(key) : decltype(pass.latch->weights)::iterator();
  if (pass.latch && sequence && known != pass.latch->weights.end()) {
    routed = known->second;
  } else {
    routed = router_weights(gate, number, x, pass);
    if (pass.latch && sequence) pass.latch->weights[key] = routed;
    if (pass.observer) pass.observer->see_weights(linear, number, routed, pass.sequence_mask);
  }
  if (sequence) routed = along_rows(routed, x);  // one a row of x, as they were read
  return gate.router_share < 1 ? routed * gate.router_share + given * (1 - gate.router_share) : routed;
}

// One number a column of the joined ranks, with the experts' scales in it. Experts of one rank and scale, the usual
// case, need no list of columns, which would be sent to the device for every linear map and token.
torch::Tensor column_weights(const SlotAtSite& slot, const torch::Tensor& weights) {
  const auto& first = slot.experts[0];
  const int64_t rank = first.a.size(0), count = static_cast<int64_t>(slot.experts.size());
  bool alike = !weights.requires_grad();  // a router's gradient keeps the order of its sums
  for (const auto& expert : slot.experts) alike = alike && expert.a.size(0) == rank && expert.scale == first.scale;
  const bool by_column = weights.size(-1) == joined_rank(slot) && joined_rank(slot) != count;
  if (alike && by_column) return weights * first.scale;
  if (alike) {
    auto shape = weights.sizes().vec();
    shape.push_back(rank);
    return (weights * first.scale).unsqueeze(-1).expand(shape).flatten(-2);
  }
  std::vector<int64_t> owners;
  std::vector<double> scales;
  for (size_t e = 0; e < slot.experts.size(); ++e) {
    owners.insert(owners.end(), static_cast<size_t>(slot.experts[e].a.size(0)), static_cast<int64_t>(e));
    scales.insert(scales.end(), static_cast<size_t>(slot.experts[e].a.size(0)), slot.experts[e].scale);
  }
  const auto scale = torch::tensor(scales, weights.options());
  if (by_column) return weights * scale;
  return weights.index_select(-1, torch::tensor(owners, at::kLong).to(weights.device())) * scale;
}

bool is_weighed(const Gate& gate) {
  return gate.kind == GateKind::given || gate.kind == GateKind::router;
}

torch::Tensor joined(const std::vector<torch::Tensor>& parts, int64_t along) {
  return parts.size() == 1 ? parts[0] : at::cat(parts, along);
}

// [rows, R] or [1, R] of several slots' columns.
torch::Tensor joined_gate(std::vector<torch::Tensor> columns, int64_t dims) {
  std::vector<int64_t> shape(static_cast<size_t>(dims) - 1, 1);
  for (const auto& part : columns)
    for (size_t d = 0; d < shape.size(); ++d)
      if (part.dim() == dims) shape[d] = std::max(shape[d], part.size(static_cast<int64_t>(d)));
  for (auto& part : columns) {
    auto full = shape;
    full.push_back(part.size(-1));
    part = part.expand(full);
  }
  return joined(columns, -1);
}

}  // namespace

std::vector<LowRank> active_experts(const Linear& linear, const torch::Tensor& x, const Pass& pass) {
  std::vector<LowRank> out;
  std::vector<torch::Tensor> a, b, fused_a, fused_b;
  std::vector<size_t> slots;
  double scale = 0, fused_scale = 0;
  bool weighed = false;
  for (size_t k = 0; k < linear.slots.size(); ++k) {
    if (!(pass.slots >> k & 1)) continue;
    const auto& slot = linear.slots[k];
    const auto& gate = gate_of(slot, pass);
    if (gate.kind == GateKind::fused) {
      for (const auto& expert : slot.experts) {
        check(fused_a.empty() || (expert.scale == fused_scale && expert.a.size(0) == fused_a[0].size(0)),
              "experts of unequal rank or scale cannot be fused");
        fused_scale = expert.scale;
        fused_a.push_back(expert.a);
        fused_b.push_back(expert.b);
      }
      continue;
    }
    if (slot.experts.empty()) continue;
    slots.push_back(k);
    weighed = weighed || is_weighed(gate);
    for (const auto& expert : slot.experts) {
      weighed = weighed || (!a.empty() && expert.scale != scale);
      scale = expert.scale;
      a.push_back(expert.a);
      b.push_back(expert.b);
    }
  }
  if (!a.empty()) {
    LowRank pair{joined(a, 0), joined(b, 1), weighed ? 1 : scale, {}, {}};
    if (weighed) {
      std::vector<torch::Tensor> columns;
      for (const size_t k : slots) columns.push_back(column_weights(linear.slots[k], slot_weights(linear, k, x, pass)));
      pair.gate = joined_gate(std::move(columns), x.dim());
    }
    out.push_back(std::move(pair));
  }
  if (!fused_a.empty()) {
    auto sum_a = fused_a[0], sum_b = fused_b[0];
    for (size_t i = 1; i < fused_a.size(); ++i) {
      sum_a = sum_a + fused_a[i];
      sum_b = sum_b + fused_b[i];
    }
    out.push_back({sum_a, sum_b, fused_scale, {}, {}});
  }
  return out;
}

bool reads_sequence(const Linear& linear, const Pass& pass) {
  for (size_t k = 0; k < linear.slots.size(); ++k) {
    if (!(pass.slots >> k & 1) || linear.slots[k].experts.empty()) continue;
    const auto& gate = gate_of(linear.slots[k], pass);
    if (gate.kind == GateKind::router && gate.reads != RouterReads::token) return true;
  }
  return false;
}

torch::Tensor experts_reference(const Linear& linear, const torch::Tensor& x, const Pass& pass) {
  auto y = torch::zeros_like(at::linear(x, base_weight(linear)));
  torch::Tensor fused_a, fused_b;
  double fused_scale = 1;
  for (size_t k = 0; k < linear.slots.size(); ++k) {
    if (!(pass.slots >> k & 1)) continue;
    const auto& slot = linear.slots[k];
    const bool fused = gate_of(slot, pass).kind == GateKind::fused;
    const auto weights = fused || slot.experts.empty() ? torch::Tensor() : slot_weights(linear, k, x, pass);
    for (size_t e = 0; e < slot.experts.size(); ++e) {
      const auto& expert = slot.experts[e];
      if (fused) {
        fused_a = fused_a.defined() ? fused_a + expert.a : expert.a;
        fused_b = fused_b.defined() ? fused_b + expert.b : expert.b;
        fused_scale = expert.scale;
        continue;
      }
      const auto index = static_cast<int64_t>(e);
      y = y + at::linear(at::linear(x, expert.a), expert.b) * weights.narrow(-1, index, 1) * expert.scale;
    }
  }
  if (fused_a.defined()) y = y + at::linear(at::linear(x, fused_a), fused_b) * fused_scale;
  return y;
}

void GateLatch::keep_rows(const torch::Tensor& index) {
  for (auto& [key, value] : weights) value = value.index_select(0, index.to(value.device()));
}

}  // namespace asr
