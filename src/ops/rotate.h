// Rotary positions in halves, as LLaMA has them: heads x [B, heads, T, d] turned by a table of angles. One node of the
// graph, whose gradient is the turn back.
#pragma once

#include <torch/types.h>

namespace asr {

// Cosines and sines of the positions, computed once for the queries and keys of every layer.
struct RotaryTable {
  torch::Tensor cosine, sine;              // [B, T, d / 2]; [1, T, d / 2] where every sample has the same positions
  torch::Tensor wide_cosine, signed_sine;  // [B, 1, T, d] for rotate_wide(), else undefined
};
RotaryTable rotary_table(const torch::Tensor& cosine, const torch::Tensor& sine);  // wide where that will serve
RotaryTable wide_rotary_table(const torch::Tensor& cosine, const torch::Tensor& sine);

torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table);
torch::Tensor rotate_reference(const torch::Tensor& x, const RotaryTable& table);
torch::Tensor rotate_cpu(const torch::Tensor& x, const RotaryTable& table);
torch::Tensor rotate_cuda(const torch::Tensor& x, const RotaryTable& table);
bool heads_fit_cuda(const torch::Tensor& x);  // halves of heads, and steps between them, are whole 16 bytes
torch::Tensor rotate_wide(const torch::Tensor& x, const RotaryTable& table);  // three operators: fewer starts on a GPU

}  // namespace asr
