#include "nn/decoder.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "nn/attention.h"
#include "nn/recompute.h"
#include "ops/gated_silu.h"
#include "ops/rms_norm.h"

namespace asr {
namespace {

LayerTap tap_at(size_t layer, const LayerTap& tap) {  // empty where the layer is not asked for
  if (!tap.request) return {};
  const auto& asked = tap.request->layers;
  return std::binary_search(asked.begin(), asked.end(), static_cast<int64_t>(layer)) ? tap : LayerTap{};
}

// How often a layer draws dropout: once a linear with experts that take part.
uint64_t adapter_calls(const DecoderLayer& l, uint64_t chosen) {
  uint64_t calls = 0;
  for (const auto* linear : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down})
    if (linear->has_experts(chosen)) ++calls;
  return calls;
}

// What of a linear may get a gradient.
void add_parameters(const Linear& linear, std::vector<torch::Tensor>& out) {
  for (const auto& slot : linear.slots) {
    for (const auto& expert : slot.experts) {
      out.push_back(expert.a);
      out.push_back(expert.b);
    }
    for (const auto* gate : {&slot.training, &slot.answering})
      if (gate->router.defined()) out.push_back(gate->router);
    if (slot.full_weight.defined()) out.push_back(slot.full_weight);
  }
}

// The mask that attention needs of keys up to x's own; on a GPU none where the order hides all padding, so that the
// library may take a kernel that knows no mask. Asked once a pass, since the host waits for the answer.
torch::Tensor needed_mask(const torch::Tensor& x, const torch::Tensor& given, KvCache* cache) {
  const auto all_real = [&] { return at::ones({x.size(0), x.size(1)}, x.options().dtype(at::kBool)); };
  const auto mask = given.defined() ? given : all_real();
  const bool drop = masks_cost_time(mask);
  if (!cache) return drop && order_hides_padding(mask) ? torch::Tensor() : mask;
  const auto all = cache->extended_mask(mask);
  if (!drop) return all;
  cache->padded = cache->padded || (given.defined() && !mask.all().item<bool>());
  return cache->padded ? all : torch::Tensor();
}

}  // namespace

torch::Tensor KvCache::extended(std::vector<torch::Tensor>& list, size_t layer, const torch::Tensor& fresh) const {
  const int64_t B = fresh.size(0), heads = fresh.size(1), T = fresh.size(2), d = fresh.size(3);
  if (room == 0) {
    if (layer == list.size()) return list.emplace_back(fresh);
    return list[layer] = at::cat({list[layer], fresh}, 2);
  }
  if (layer == list.size()) list.push_back(at::empty({B, heads, room, d}, fresh.options()));
  list[layer].narrow(2, filled, T).copy_(fresh);
  return filled == 0 ? fresh : list[layer].narrow(2, 0, filled + T);
}

torch::Tensor KvCache::extended_mask(const torch::Tensor& fresh) {
  if (room == 0) return key_mask = key_mask.defined() ? at::cat({key_mask, fresh}, 1) : fresh;
  const int64_t all = filled + fresh.size(1);
  check(all <= room, "a cache with room for ", room, " positions cannot hold ", all);
  if (!key_mask.defined()) key_mask = at::ones({fresh.size(0), room}, fresh.options());
  key_mask.narrow(1, filled, fresh.size(1)).copy_(fresh);
  return key_mask.narrow(1, 0, all).contiguous();  // read by every layer
}

void KvCache::keep_rows(const torch::Tensor& index) {
  for (auto* list : {&keys, &values, &context_keys, &context_values})
    for (auto& tensor : *list) tensor = tensor.index_select(0, index);
  if (key_mask.defined()) key_mask = key_mask.index_select(0, index);
}

KvCache KvCache::spread(const torch::Tensor& index, int64_t new_room) const {
  KvCache out;
  out.room = new_room;
  out.filled = filled;
  out.padded = padded;
  const auto rows = [&](const std::vector<torch::Tensor>& from, std::vector<torch::Tensor>& to) {
    for (const auto& tensor : from) {
      to.push_back(at::empty({index.size(0), tensor.size(1), new_room, tensor.size(3)}, tensor.options()));
      auto place = to.back().narrow(2, 0, filled);
      at::index_select_out(place, tensor.narrow(2, 0, filled), 0, index);
    }
  };
  rows(keys, out.keys);
  rows(values, out.values);
  for (const auto& tensor : context_keys) out.context_keys.push_back(tensor.index_select(0, index));
  for (const auto& tensor : context_values) out.context_values.push_back(tensor.index_select(0, index));
  out.key_mask = at::ones({index.size(0), new_room}, key_mask.options());
  out.key_mask.narrow(1, 0, filled).copy_(key_mask.narrow(1, 0, filled).index_select(0, index));
  return out;
}

torch::Tensor Decoder::attended(size_t layer, const torch::Tensor& x, const Shared& shared) const {
  const auto& l = layers[layer];
  const auto qkv = together({&l.q, &l.k, &l.v}, x, shared.pass);
  const auto q = rotate(split_heads(qkv[0], config.heads), shared.rotary);
  auto k = rotate(split_heads(qkv[1], config.kv_heads), shared.rotary);
  auto v = split_heads(qkv[2], config.kv_heads);
  if (auto* cache = shared.input.cache) {
    k = cache->extended(cache->keys, layer, k);
    v = cache->extended(cache->values, layer, v);
  }
  const auto& tap = shared.input.tap;
  const bool here = tap.request && tap.request->to_text == config.cross;
  const AttentionHeads heads{q, k, v, shared.key_mask, /*causal=*/true};
  return join_heads(attend_and_tap(heads, here ? tap_at(layer, tap) : LayerTap{}));
}

torch::Tensor Decoder::attention(size_t layer, const torch::Tensor& x, const Shared& shared) const {
  return layers[layer].o(attended(layer, x, shared), shared.pass);
}

// Whether the last layer may go on with the positions that are read alone: nobody looks at the others, and no expert
// draws a dropout by place or reads a sequence.
bool Decoder::ends_early(const DecoderInput& input, const Pass& pass, bool again) const {
  const auto depth = static_cast<int64_t>(layers.size());
  const auto* inside = input.inside;
  if (!input.read.defined() || depth == 0 || again || input.cache || input.context.defined() || pass.observer)
    return false;
  if (inside && (inside->layer >= depth || inside->normed_layer >= depth)) return false;
  const auto& l = layers.back();
  for (const auto* linear : {&l.o, &l.gate, &l.up, &l.down})
    if (linear->has_experts(pass.slots)) return false;
  return true;
}

torch::Tensor Decoder::cross_attention(size_t layer, const torch::Tensor& x, const Shared& shared) const {
  const auto& l = layers[layer].cross;
  auto* cache = shared.input.cache;
  const auto q = split_heads(l.q(x, shared.pass), config.heads);
  torch::Tensor k, v;
  if (cache && layer < cache->context_keys.size()) {
    k = cache->context_keys[layer];
    v = cache->context_values[layer];
  } else {
    const auto kv = together({&l.k, &l.v}, shared.input.context, shared.pass);
    k = split_heads(kv[0], config.heads);
    v = split_heads(kv[1], config.heads);
    if (cache) {
      cache->context_keys.push_back(k);
      cache->context_values.push_back(v);
    }
  }
  const auto& tap = shared.input.tap;
  const bool here = tap.request && !tap.request->to_text;
  const AttentionHeads heads{q, k, v, {}, /*causal=*/false};
  return l.o(join_heads(attend_and_tap(heads, here ? tap_at(layer, tap) : LayerTap{})), shared.pass);
}

// One layer whose insides are dropped. Dropout is keyed by the number of the call, so running it again from the same
// number draws the same masks.
torch::Tensor Decoder::recomputed(size_t layer, const torch::Tensor& x, const Shared& shared) const {
  const auto& l = layers[layer];
  const auto& pass = shared.pass;
  std::vector<torch::Tensor> parameters;
  for (const auto* linear : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) add_parameters(*linear, parameters);
  const auto first_call = pass.dropout ? std::make_optional(*pass.dropout) : std::nullopt;
  const auto tap = tap_at(layer, shared.input.tap);
  const auto request = tap.request ? std::make_optional(*tap.request) : std::nullopt;
  const auto tap_mask = std::make_shared<TapMask>(tap.request ? tap.result->mask : TapMask());
  // The backward pass may come when the caller's weights are gone.
  const auto given = pass.given ? std::make_shared<const GivenWeights>(*pass.given) : nullptr;
  const auto run = [this, layer, rotary = shared.rotary, mask = shared.key_mask, how = pass, given, request, tap_mask](
                       const torch::Tensor& from, AdapterDropout* dropout) {
    const auto& part = layers[layer];
    TapResult rows;
    rows.mask = *tap_mask;
    auto inner = how;
    inner.dropout = dropout;
    inner.given = given.get();
    DecoderInput input;
    input.tap = {request ? &*request : nullptr, &rows};
    const auto sum = from + attention(layer, part.attention_norm(from), {rotary, mask, inner, input});
    const auto gate_up = together({&part.gate, &part.up}, part.mlp_norm(sum), inner);
    std::vector<torch::Tensor> out = {sum + part.down(gated_silu(gate_up[0], gate_up[1]), inner)};
    out.insert(out.end(), rows.layers.begin(), rows.layers.end());
    out.insert(out.end(), rows.scores.begin(), rows.scores.end());
    *tap_mask = rows.mask;
    return out;
  };
  const auto out = recompute(
      [run, first_call](const torch::Tensor& from) {
        auto dropout = first_call;
        return run(from, dropout ? &*dropout : nullptr);
      },
      x, parameters);
  if (pass.dropout) pass.dropout->calls += adapter_calls(l, pass.slots);
  if (tap.request) {
    tap.result->mask = *tap_mask;  // undefined where the tap was fused
    (tap_mask->bias.defined() ? tap.result->scores : tap.result->layers).push_back(out[1]);
  }
  return out[0];
}

torch::Tensor Decoder::operator()(torch::Tensor x, const DecoderInput& input, const Pass& how) const {
  auto* cache = input.cache;
  auto* inside = input.inside;
  auto pass = how;
  pass.sequence_mask = input.mask;
  pass.row_samples = torch::Tensor();
  check(!input.tap.request || (input.tap.result && !cache), "a tap needs a place for its result and no cache");
  check(input.mask.defined() || (cache && cache->filled > 0), "a decoder that continues nothing needs a mask");
  check(config.cross || !input.context.defined(), "a context is for cross-attention");
  const auto key_mask = needed_mask(x, input.mask, cache);
  const auto rotary = make_rotary(input.positions, config.head(), config.rotary, x.scalar_type());
  const Shared shared{rotary, key_mask, pass, input};
  torch::Tensor added;  // what the half layer before adds to x
  const auto normed = [&](const RmsNorm& norm) {
    if (!added.defined()) return norm(x);
    auto [sum, out] = add_rms_norm(x, added, norm.weight.to(x.scalar_type()), norm.eps);
    x = sum;
    return out;
  };
  const auto depth = static_cast<int64_t>(layers.size());
  const bool again = inside && inside->recompute && at::GradMode::is_enabled() && !cache && !config.cross;
  const bool early = ends_early(input, pass, again);
  const auto read = [&](const torch::Tensor& all) {
    return all.reshape({-1, all.size(-1)}).index_select(0, input.read);
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& l = layers[i];
    if (again) {
      x = recomputed(i, x, shared);
    } else {
      added = attended(i, normed(l.attention_norm), shared);
      if (early && i + 1 == layers.size()) {
        x = read(x);
        added = read(added);
      }
      added = l.o(added, pass);
      if (input.context.defined()) added = cross_attention(i, normed(l.cross.norm), shared);
      const auto gate_up = together({&l.gate, &l.up}, normed(l.mlp_norm), pass);
      added = l.down(gated_silu(gate_up[0], gate_up[1]), pass);
    }
    const int64_t done = static_cast<int64_t>(i) + 1;
    if (!inside || done == depth) continue;
    const auto sum = [&] { return added.defined() ? x + added : x; };
    if (inside->layer == done) inside->state = sum();
    if (inside->normed_layer == done) inside->normed = layers[i + 1].attention_norm(sum());
    if (inside->stop_there && done >= std::max(inside->layer, inside->normed_layer)) return {};
  }
  if (input.tap.result) input.tap.result->finish();
  if (cache) cache->filled += x.size(1);
  const auto out = normed(final_norm);
  if (inside && inside->layer >= depth) inside->state = out;
  if (inside && inside->normed_layer >= depth) inside->normed = out;
  return input.read.defined() && !early ? read(out) : out;
}

}  // namespace asr
