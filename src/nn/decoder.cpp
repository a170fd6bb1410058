#include "nn/decoder.h"

#include <algorithm>

#include "base/error.h"
#include "nn/attention.h"

namespace asr {

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
  if (tap && std::binary_search(tap->layers.begin(), tap->layers.end(), static_cast<int64_t>(layer))) {
    const int64_t group = config.heads / config.kv_heads;
    tapped->layers.push_back(
        attention_rows(q, group == 1 ? k : k.repeat_interleave(group, 1), key_mask, /*causal=*/true, *tap));
  }
  return l.o(join_heads(attend(q, k, v, key_mask, /*causal=*/true)), pass);
}

torch::Tensor Decoder::operator()(torch::Tensor x, const torch::Tensor& positions, const torch::Tensor& mask,
                                  const Pass& pass, KvCache* cache, const TapRequest* tap, TapResult* tapped) const {
  check(!tap || (tapped && !cache), "a tap needs a place for its result and no cache");
  if (cache) cache->key_mask = cache->key_mask.defined() ? at::cat({cache->key_mask, mask}, 1) : mask;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& l = layers[i];
    x = x + attention(i, l.attention_norm(x), positions, mask, pass, cache, tap, tapped);
    const auto h = l.mlp_norm(x);
    x = x + l.down(at::silu(l.gate(h, pass)) * l.up(h, pass), pass);
  }
  return final_norm(x);
}

}  // namespace asr
