// Multi-head attention, as decoders and encoders share it: fused in float32 on the CPU, the library's fused operator on
// a GPU, a plain graph for everything else and for the tests. No score matrix is kept where it is fused.
#pragma once

#include <torch/types.h>

#include <utility>

namespace asr {

// q [B, heads, T, d], k and v [B, kv_heads, S, d] with heads a multiple of kv_heads; key_mask [B, S] true where a key
// may be seen, or undefined where no key is hidden (the fastest on a GPU). Causal: query t sits at position S - T + t
// and sees keys up to it. A query that sees no key gets some finite row, which nobody must read.
torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& key_mask, bool causal);  // [B, heads, T, d]
torch::Tensor attend_reference(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& key_mask, bool causal);
torch::Tensor attend_cpu(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& key_mask, bool causal);
torch::Tensor attend_library(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& key_mask, bool causal);
bool has_library_attention();  // whether this libtorch has it
// Whether a mask that hides nothing is better left away: the library then takes a kernel that knows none.
bool masks_cost_time(const torch::Tensor& key_mask);

// The arguments of attend(), where more are to follow.
struct AttentionHeads {
  torch::Tensor q, k, v, key_mask;
  bool causal = false;
};

// Rows of the weights that are wanted beside the result.
struct AttentionRows {
  torch::Tensor rows, columns;  // [B, T] queries and [B, V] keys, int64; -1 gives zeros
  // Where not negative, rows (but for -1) and columns are the stretches of positions that begin here.
  int64_t first_row = -1, first_column = -1;
};

// Whether attention hands out rows of its weights as it passes; elsewhere they are computed again (nn/tap.h).
bool attends_with_rows(const AttentionHeads& heads);
// attend() and the rows [B, heads, T, V], both differentiable; causal attention needs as many queries as keys.
std::pair<torch::Tensor, torch::Tensor> attend_tapped_cpu(const AttentionHeads& heads, const AttentionRows& asked);

// What the plain form is made of.
torch::Tensor all_keys(const torch::Tensor& k);  // the key_mask that hides none
torch::Tensor visible_keys(const torch::Tensor& key_mask, int64_t queries, bool causal);  // [B, 1, T or 1, S]
torch::Tensor shared_heads(const torch::Tensor& x, int64_t group);  // each head of x for `group` heads of the queries
// Over the last dimension, in float32 at least, as transformers has it; a bfloat16 model's weights stay so.
torch::Tensor softmax_rows(const torch::Tensor& scores);

}  // namespace asr
