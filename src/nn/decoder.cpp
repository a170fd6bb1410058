#include "nn/decoder.h"

#include <algorithm>

#include "base/error.h"
#include "nn/attention.h"
#include "nn/fused.h"

namespace asr {
namespace {

const TapRequest* tap_at(size_t layer, const TapRequest* tap) {  // null where the layer is not asked for
  if (!tap) return nullptr;
  return std::binary_search(tap->layers.begin(), tap->layers.end(), static_cast<int64_t>(layer)) ? tap : nullptr;
}

}  // namespace

torch::Tensor Decoder::attention(size_t layer, const torch::Tensor& x, const RotaryTable& rotary,
                                 const torch::Tensor& mask, const Pass& pass, KvCache* cache, const TapRequest* tap,
                                 TapResult* tapped) const {
  const auto& l = layers[layer];
  const auto qkv = together({&l.q, &l.k, &l.v}, x, pass);
  const auto q = rotate(split_heads(qkv[0], config.heads), rotary);
  auto k = rotate(split_heads(qkv[1], config.kv_heads), rotary);
  auto v = split_heads(qkv[2], config.kv_heads);
  auto key_mask = mask;
  if (cache) {
    if (layer < cache->keys.size()) {
      k = cache->keys[layer] = at::cat({cache->keys[layer], k}, 2);
      v = cache->values[layer] = at::cat({cache->values[layer], v}, 2);
    } else {
      cache->keys.push_back(k), cache->values.push_back(v);
    }
    key_mask = cache->key_mask;
  }
  const auto* asked = config.cross ? nullptr : tap_at(layer, tap);
  return l.o(join_heads(attend_and_tap(q, k, v, key_mask, /*causal=*/true, asked, tapped)), pass);
}

torch::Tensor Decoder::cross_attention(size_t layer, const torch::Tensor& x, const torch::Tensor& memory,
                                       const Pass& pass, KvCache* cache, const TapRequest* tap,
                                       TapResult* tapped) const {
  const auto& l = layers[layer].cross;
  const auto q = split_heads(l.q(x, pass), config.heads);
  torch::Tensor k, v;
  if (cache && layer < cache->memory_keys.size()) {
    k = cache->memory_keys[layer], v = cache->memory_values[layer];
  } else {
    const auto kv = together({&l.k, &l.v}, memory, pass);
    k = split_heads(kv[0], config.heads), v = split_heads(kv[1], config.heads);
    if (cache) cache->memory_keys.push_back(k), cache->memory_values.push_back(v);
  }
  const auto all = torch::ones({k.size(0), k.size(2)}, k.options().dtype(at::kBool).requires_grad(false));
  return l.o(join_heads(attend_and_tap(q, k, v, all, /*causal=*/false, tap_at(layer, tap), tapped)), pass);
}

torch::Tensor Decoder::operator()(torch::Tensor x, const torch::Tensor& positions, const torch::Tensor& mask,
                                  const Pass& pass, KvCache* cache, const TapRequest* tap, TapResult* tapped,
                                  const torch::Tensor& memory) const {
  check(!tap || (tapped && !cache), "a tap needs a place for its result and no cache");
  check(config.cross == memory.defined(), "a memory is for cross-attention, and cross-attention needs one");
  if (cache) cache->key_mask = cache->key_mask.defined() ? at::cat({cache->key_mask, mask}, 1) : mask;
  const auto rotary = make_rotary(positions, config.width / config.heads, config.rope_theta, x.scalar_type());
  torch::Tensor added;  // what the half layer before adds to x
  const auto normed = [&](const RmsNorm& norm) {
    if (!added.defined()) return norm(x);
    auto [sum, out] = add_rms_norm(x, added, norm.weight, norm.eps);
    x = sum;
    return out;
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& l = layers[i];
    added = attention(i, normed(l.attention_norm), rotary, mask, pass, cache, tap, tapped);
    if (config.cross) added = cross_attention(i, normed(l.cross.norm), memory, pass, cache, tap, tapped);
    const auto gate_up = together({&l.gate, &l.up}, normed(l.mlp_norm), pass);
    added = l.down(gated_silu(gate_up[0], gate_up[1]), pass);
  }
  return normed(final_norm);
}

}  // namespace asr
