// Multi-head attention, as decoders and encoders share it. `attend` is fused in float32 on the CPU and on CUDA where
// libtorch has it; `attend_reference` is the plain form, for everything else and for the tests.
#pragma once

#include <torch/types.h>

#include "nn/rotary_config.h"

namespace asr {

// q [B, heads, T, d], k and v [B, kv_heads, S, d] with heads a multiple of kv_heads; key_mask [B, S] true where a key
// may be seen, or undefined where no key is hidden (the fastest on a GPU). Causal: query t sits at position S - T + t
// and sees keys up to it. A query that sees no key gets some finite row, which nobody must read.
torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& key_mask, bool causal);  // [B, heads, T, d]
torch::Tensor attend_reference(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& key_mask, bool causal);
torch::Tensor attend_fused(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const torch::Tensor& key_mask, bool causal);  // float32 on the CPU

torch::Tensor all_keys(const torch::Tensor& k);  // the key_mask that hides none
// Whether every row of mask [B, T] is real tokens and then padding. Causal attention of T queries to T keys then needs
// no mask: padding comes after every token that is read. The host waits for the answer.
bool order_hides_padding(const torch::Tensor& mask);
// Over the last dimension, in float32 at least, as transformers has it; a bfloat16 model's weights stay so.
torch::Tensor softmax_rows(const torch::Tensor& scores);

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads);  // [B, T, heads * d] -> [B, heads, T, d]
torch::Tensor join_heads(const torch::Tensor& x);                  // and back

// Cosines and sines of the rotary positions, computed once for the queries and keys of every layer.
struct RotaryTable {
  torch::Tensor cosine, sine;              // [B, T, d / 2]; [1, T, d / 2] where every sample has the same positions
  torch::Tensor wide_cosine, signed_sine;  // [B, 1, T, d] where asked for: heads turn in three operators then
};
RotaryTable rotary_table(const torch::Tensor& cosine, const torch::Tensor& sine, bool wide);
// positions [B, T], or [3, B, T] where the configuration turns sections of a head by time, height and width.
RotaryTable make_rotary(const torch::Tensor& positions, int64_t head_dim, const RotaryConfig& config,
                        at::ScalarType type);
RotaryTable make_rotary(const torch::Tensor& positions, int64_t head_dim, double theta, at::ScalarType type);

// Rotary position embedding in halves, as LLaMA has it; x [B, heads, T, d], positions [B, T].
torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table);
torch::Tensor rotate_reference(const torch::Tensor& x, const RotaryTable& table);
torch::Tensor rotate_wide(const torch::Tensor& x, const RotaryTable& table);  // on a GPU
torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& positions, double theta);

}  // namespace asr
