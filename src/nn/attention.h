// Multi-head attention, as decoders and encoders share it. The plain form here is the reference for fused kernels.
#pragma once

#include <torch/types.h>

namespace asr {

// q [B, heads, T, d], k and v [B, kv_heads, S, d] with heads a multiple of kv_heads; key_mask [B, S] true where a key
// may be seen. Causal: query t sits at position S - T + t and sees keys up to it.
torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& key_mask, bool causal);  // [B, heads, T, d]

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads);  // [B, T, heads * d] -> [B, heads, T, d]
torch::Tensor join_heads(const torch::Tensor& x);                  // and back

// Rotary position embedding in halves, as LLaMA has it; positions [B, T].
torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& positions, double theta);

}  // namespace asr
