#include "nn/decoder.h"

#include <algorithm>

#include "base/error.h"
#include "nn/attention.h"

namespace asr {
namespace {

bool taps(const TapRequest* tap, size_t layer) {
  return tap && std::binary_search(tap->layers.begin(), tap->layers.end(), static_cast<int64_t>(layer));
}

}  // namespace

torch::Tensor Decoder::attention(size_t layer, const torch::Tensor& x, const torch::Tensor& positions,
                                 const torch::Tensor& mask, const Pass& pass, KvCache* cache, const TapRequest* tap,
                                 TapResult* tapped) const {
  const auto& l = layers[layer];
  const auto q = rotate(split_heads(l.q(x, pass), config.heads), positions, config.rope_theta);
  auto k = rotate(split_heads(l.k(x, pass), config.kv_heads), positions, config.rope_theta);
  auto v = split_heads(l.v(x, pass), config.kv_heads);
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
  if (!config.cross && taps(tap, layer)) {
    const int64_t group = config.heads / config.kv_heads;
    tapped->layers.push_back(
        attention_rows(q, group == 1 ? k : k.repeat_interleave(group, 1), key_mask, /*causal=*/true, *tap));
  }
  return l.o(join_heads(attend(q, k, v, key_mask, /*causal=*/true)), pass);
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
    k = split_heads(l.k(memory, pass), config.heads), v = split_heads(l.v(memory, pass), config.heads);
    if (cache) cache->memory_keys.push_back(k), cache->memory_values.push_back(v);
  }
  const auto all = torch::ones({k.size(0), k.size(2)}, k.options().dtype(at::kBool).requires_grad(false));
  if (taps(tap, layer)) tapped->layers.push_back(attention_rows(q, k, all, /*causal=*/false, *tap));
  return l.o(join_heads(attend(q, k, v, all, /*causal=*/false)), pass);
}

torch::Tensor Decoder::operator()(torch::Tensor x, const torch::Tensor& positions, const torch::Tensor& mask,
                                  const Pass& pass, KvCache* cache, const TapRequest* tap, TapResult* tapped,
                                  const torch::Tensor& memory) const {
  check(!tap || (tapped && !cache), "a tap needs a place for its result and no cache");
  check(config.cross == memory.defined(), "a memory is for cross-attention, and cross-attention needs one");
  if (cache) cache->key_mask = cache->key_mask.defined() ? at::cat({cache->key_mask, mask}, 1) : mask;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& l = layers[i];
    x = x + attention(i, l.attention_norm(x), positions, mask, pass, cache, tap, tapped);
    if (config.cross) x = x + cross_attention(i, l.cross.norm(x), memory, pass, cache, tap, tapped);
    const auto h = l.mlp_norm(x);
    x = x + l.down(at::silu(l.gate(h, pass)) * l.up(h, pass), pass);
  }
  return final_norm(x);
}

}  // namespace asr
