#include "nn/linear.h"

#include <cmath>

#include "base/random.h"
#include "nn/gates.h"
#include "ops/adapted_linear.h"
#include "ops/keyed_dropout.h"
#include "ops/rms_norm.h"

namespace asr {
DropoutKey AdapterDropout::key_for(const torch::Tensor& x) {
  const uint64_t site_key = Random({key, calls++}).next();
  const auto samples = static_cast<int64_t>(positions.size());
  if (samples == 0) return {probability, site_key};
  if (x.size(0) % samples == 0) return {probability, site_key, positions, positions_there};
  // Samples of unequal length lie flat: their places in the whole batch are unknown, so masks are drawn for this part.
  return {probability, Random({site_key, static_cast<uint64_t>(positions[0])}).next()};
}

bool Linear::has_experts(uint64_t chosen) const {
  for (size_t k = 0; k < slots.size(); ++k)
    if ((chosen >> k & 1) && !slots[k].experts.empty()) return true;
  return false;
}

Weight weight_in(const Linear& linear, const Pass& pass) {
  for (size_t k = 0; k < linear.slots.size(); ++k)
    if ((pass.slots >> k & 1) && linear.slots[k].full_weight.defined()) return linear.slots[k].full_weight;
  if (pass.slots != 0 && linear.merged.defined()) return linear.merged;
  return linear.few_bits.defined() ? linear.few_bits : Weight(linear.weight);
}

namespace {

// Where memory is scarce, masks are made again in the backward pass; elsewhere what was read is kept, which is faster.
void drop_inputs(LinearMap& map, const torch::Tensor& x, AdapterDropout& dropout) {
  const auto key = dropout.key_for(x);
  const bool again = makes_masks_again(x);
  const auto input = again ? torch::Tensor() : keyed_dropout(x, key);
  for (auto& pair : map.low_rank) {
    if (again)
      pair.dropout = key;
    else
      pair.input = input;
  }
}

}  // namespace

std::vector<torch::Tensor> together(const std::vector<const Linear*>& maps, const torch::Tensor& x, const Pass& pass) {
  std::vector<LinearMap> list;
  for (const auto* linear : maps) {
    if (pass.observer) pass.observer->see(*linear, x);
    const bool merged = pass.merged && pass.merged->count(linear) > 0;
    LinearMap map{merged ? Weight(pass.merged->at(linear)) : weight_in(*linear, pass), linear->bias, {}};
    if (!merged && linear->has_experts(pass.slots)) {
      map.low_rank = active_experts(*linear, x, pass);
      if (pass.dropout && pass.dropout->probability > 0) drop_inputs(map, x, *pass.dropout);
    }
    list.push_back(std::move(map));
  }
  return adapted_linears(x, list);
}

torch::Tensor Linear::operator()(const torch::Tensor& x, const Pass& pass) const {
  return together({this}, x, pass)[0];
}

Expert make_expert(const Linear& linear, int64_t rank, double alpha, const at::Generator& generator) {
  // Adapters learn in full precision, whatever the base is stored in.
  const bool few_bits = linear.weight.element_size() < 4;
  const auto options =
      linear.weight.options().dtype(few_bits ? at::kFloat : linear.weight.scalar_type()).requires_grad(false);
  const int64_t out = linear.weight.size(0), in = linear.weight.size(1);
  // Drawn on the CPU, so that a run starts from the same adapters on every device.
  const auto a = at::randn({rank, in}, generator, at::CPU(at::kFloat)) / std::sqrt(static_cast<double>(in));
  return {a.to(options).requires_grad_(), torch::zeros({out, rank}, options).requires_grad_(),
          alpha / static_cast<double>(rank)};
}

NamedParameters add_experts(const std::vector<AdapterSite>& sites, int64_t rank, double alpha, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  NamedParameters out;
  for (const auto& site : sites) {
    const auto expert = make_expert(*site.linear, rank, alpha, generator);
    site.linear->slots.push_back({{expert}});
    out.emplace_back(site.name + ".lora_A.weight", expert.a);
    out.emplace_back(site.name + ".lora_B.weight", expert.b);
  }
  return out;
}

void keep_in(Linear& linear, WeightFormat format) {
  at::NoGradGuard no_grad;
  if (format == WeightFormat::plain) return;
  linear.few_bits = in_format(linear.weight.detach(), format);
  if (format != WeightFormat::nf4) return;
  const auto nothing = at::full({1, 1}, std::nan(""), linear.weight.options().requires_grad(false));
  linear.weight = nothing.expand(linear.weight.sizes());
}

torch::Tensor base_weight(const Linear& linear) {
  const bool here = linear.few_bits.format != WeightFormat::nf4;
  return here ? linear.weight : values_of(linear.few_bits, linear.weight.scalar_type());
}

torch::Tensor merged_weight(const Linear& linear, uint64_t chosen, double sign) {
  at::NoGradGuard no_grad;
  const auto type = linear.weight.scalar_type();
  auto sum = base_weight(linear).to(at::promote_types(type, at::kFloat));
  for (size_t k = 0; k < linear.slots.size(); ++k) {
    if (!(chosen >> k & 1)) continue;
    for (const auto& expert : linear.slots[k].experts) sum = sum + expert.b.mm(expert.a) * (sign * expert.scale);
  }
  return sum.to(type);
}

torch::Tensor RmsNorm::operator()(const torch::Tensor& x) const {
  return rms_norm(x, weight.to(x.scalar_type()), eps);
}

torch::Tensor LayerNorm::operator()(const torch::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight.to(x.scalar_type()), bias.to(x.scalar_type()), eps);
}

}  // namespace asr
