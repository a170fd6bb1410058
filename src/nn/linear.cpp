#include "nn/linear.h"

#include <cmath>

#include "base/random.h"
#include "nn/gates.h"
#include "ops/adapted_linear.h"
#include "ops/rms_norm.h"

namespace asr {
namespace {

// Kept entries hold 1 / (1 - p). One random byte an entry: probabilities are multiples of 1/256.
void fill_mask(float* out, int64_t first, int64_t count, double probability, uint64_t key) {
  const auto threshold = static_cast<uint64_t>(std::lround(probability * 256));
  const float kept = 256.0f / static_cast<float>(256 - threshold);
  for (int64_t i = 0; i < count;) {
    const int64_t entry = first + i, begin = entry % 8, end = std::min<int64_t>(8, begin + count - i);
    const uint64_t bits = Random::mix(key + static_cast<uint64_t>(entry - begin) * 0x9e3779b97f4a7c15);
    for (int64_t j = begin; j < end; ++j) out[i++] = (bits >> (8 * j) & 255) < threshold ? 0.0f : kept;
  }
}

}  // namespace

torch::Tensor AdapterDropout::operator()(const torch::Tensor& x) {
  if (probability <= 0) return x;
  uint64_t site_key = Random({key, calls++}).next();
  const int64_t count = x.numel(), samples = static_cast<int64_t>(positions.size());
  const bool placed = samples > 0 && x.size(0) % samples == 0;
  // Samples of unequal length lie flat: their places in the whole batch are unknown, so masks are drawn for this part.
  if (samples > 0 && !placed) site_key = Random({site_key, static_cast<uint64_t>(positions[0])}).next();
  const int64_t each = placed ? count / samples : count;
  if (x.is_cpu()) {
    auto mask = at::empty({count}, at::CPU(at::kFloat));
    for (int64_t i = 0; i * each < count; ++i)
      fill_mask(mask.data_ptr<float>() + i * each, placed ? positions[static_cast<size_t>(i)] * each : 0, each,
                probability, site_key);
    return x * mask.view(x.sizes()).to(x.scalar_type());
  }
  // The same hash, computed where the data is: a multiply-and-shift of the index, compared with the threshold.
  auto index = at::arange(each, x.options().dtype(at::kLong));
  if (placed) index = index + torch::tensor(positions, at::kLong).to(x.device()).unsqueeze(1) * each;
  auto bits = (index + static_cast<int64_t>(site_key >> 2)) * int64_t(0x2545F4914F6CDD1D);
  bits = bits.bitwise_xor(bits.bitwise_right_shift(29)) * int64_t(0x1B873593CC9E2D51);
  const auto kept = bits.bitwise_right_shift(24).bitwise_and(255).ge(std::lround(probability * 256));
  return x * kept.view(x.sizes()).to(x.scalar_type()) * (256.0 / (256.0 - std::round(probability * 256)));
}

bool Linear::has_experts(uint64_t chosen) const {
  for (size_t k = 0; k < slots.size(); ++k)
    if ((chosen >> k & 1) && !slots[k].experts.empty()) return true;
  return false;
}

namespace {

// The weight that counts in a pass; its experts come on top.
const torch::Tensor& weight_in(const Linear& linear, const Pass& pass) {
  for (size_t k = 0; k < linear.slots.size(); ++k)
    if ((pass.slots >> k & 1) && linear.slots[k].full_weight.defined()) return linear.slots[k].full_weight;
  return pass.slots != 0 && linear.merged.defined() ? linear.merged : linear.weight;
}

}  // namespace

std::vector<torch::Tensor> together(const std::vector<const Linear*>& maps, const torch::Tensor& x, const Pass& pass) {
  std::vector<LinearMap> list;
  for (const auto* linear : maps) {
    if (pass.observer) pass.observer->see(*linear, x);
    LinearMap map{weight_in(*linear, pass), linear->bias, {}};
    if (linear->has_experts(pass.slots)) {
      map.low_rank = active_experts(*linear, x, pass);
      const auto input = pass.dropout ? (*pass.dropout)(x) : torch::Tensor();
      for (auto& pair : map.low_rank) pair.input = input;
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

torch::Tensor merged_weight(const Linear& linear, uint64_t chosen, double sign) {
  at::NoGradGuard no_grad;
  const auto type = linear.weight.scalar_type();
  auto sum = linear.weight.to(at::promote_types(type, at::kFloat));
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
