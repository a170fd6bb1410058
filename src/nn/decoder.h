// The causal decoder of LLaMA and Qwen language models, in the small for the built-in backbones too: RMS norms before
// attention and a gated MLP, rotary positions, grouped keys and values.
#pragma once

#include <torch/types.h>

#include <vector>

#include "nn/attention.h"
#include "nn/linear.h"
#include "nn/tap.h"

namespace asr {

struct DecoderConfig {
  int64_t layers = 4, width = 128, heads = 4, kv_heads = 4, mlp = 256;
  int64_t head_width = 0;  // 0: width / heads
  RotaryConfig rotary;
  double norm_eps = 1e-6;
  bool cross = false;  // every layer also attends to a context (the visual tokens), after attending to the text
  int64_t head() const { return head_width ? head_width : width / heads; }
};

struct CrossAttention {
  RmsNorm norm;
  Linear q, k, v, o;
};

struct DecoderLayer {
  RmsNorm attention_norm, mlp_norm;
  Linear q, k, v, o, gate, up, down;
  CrossAttention cross;  // empty without config.cross
};

// Keys and values of the positions seen so far, one pair a layer, and of the context. With `room` for all positions
// that will come, each is written once, into its place; without, every call copies what was there: the plain reference.
// Room is for passes that record no gradient.
struct KvCache {
  int64_t room = 0;                                         // positions; 0: tensors grow
  int64_t filled = 0;                                       // positions seen so far
  std::vector<torch::Tensor> keys, values;                  // [B, kv_heads, filled or room, d]; empty at first
  std::vector<torch::Tensor> context_keys, context_values;  // [B, heads, V, d]
  torch::Tensor key_mask;                                   // [B, filled or room]
  bool padded = false;                                      // key_mask hides a key; known on a GPU alone

  // The keys or values of a layer up to the newest, which `fresh` [B, kv_heads, T, d] holds.
  torch::Tensor extended(std::vector<torch::Tensor>& list, size_t layer, const torch::Tensor& fresh) const;
  torch::Tensor extended_mask(const torch::Tensor& fresh);  // the same of key_mask; [B, T]
  void keep_rows(const torch::Tensor& index);               // of the samples that stay in the batch
  // A cache of which row i goes on from row index[i] of this one.
  KvCache spread(const torch::Tensor& index, int64_t new_room) const;
};

// Beyond the last state.
struct DecoderInside {
  int64_t layer = 0;         // the state after so many layers goes into `state`; 0: none
  int64_t normed_layer = 0;  // the same behind the next layer's input norm, into `normed`
  bool stop_there = false;   // layers after these are not computed
  torch::Tensor state, normed;
  bool recompute = false;  // layers keep their input alone and run again in the backward pass
};

// What a decoder is given beside the states, and where it leaves what else is wanted.
struct DecoderInput {
  torch::Tensor positions;     // [B, T], or [3, B, T] (RotaryConfig)
  torch::Tensor mask = {};     // [B, T], true at real tokens; undefined where real tokens alone continue a cache
  torch::Tensor context = {};  // [B, V, width]: what cross-attention looks at; without it, its layers are left out
  KvCache* cache = nullptr;    // the states continue what it holds
  // Positions of x, flattened, whose last states are read, [n]; undefined: all. What only others need of the last layer
  // is then left out.
  torch::Tensor read = {};
  LayerTap tap = {};  // only without a cache; columns count in the context if there is one, else in x
  DecoderInside* inside = nullptr;
};

class Decoder {
 public:
  DecoderConfig config;
  std::vector<DecoderLayer> layers;
  RmsNorm final_norm;

  // x [B, T, width]; the last states, [B, T, width] or [n, width].
  torch::Tensor operator()(torch::Tensor x, const DecoderInput& input, const Pass& pass) const;

 private:
  // What all layers of a pass share.
  struct Shared {
    const RotaryTable& rotary;
    const torch::Tensor& key_mask;
    const Pass& pass;
    const DecoderInput& input;
  };
  torch::Tensor recomputed(size_t layer, const torch::Tensor& x, const Shared& shared) const;
  torch::Tensor cross_attention(size_t layer, const torch::Tensor& x, const Shared& shared) const;
  torch::Tensor attention(size_t layer, const torch::Tensor& x, const Shared& shared) const;
  torch::Tensor attended(size_t layer, const torch::Tensor& x, const Shared& shared) const;  // before o
  bool ends_early(const DecoderInput& input, const Pass& pass, bool again) const;
};

}  // namespace asr
