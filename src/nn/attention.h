// What models put around attention (ops/attention.h): heads split and joined, padding, rotary positions.
#pragma once

#include <torch/types.h>

#include "nn/rotary_config.h"
#include "ops/attention.h"
#include "ops/rotate.h"

namespace asr {

// Whether every row of mask [B, T] is real tokens and then padding. Causal attention of T queries to T keys then needs
// no mask: padding comes after every token that is read. The host waits for the answer.
bool order_hides_padding(const torch::Tensor& mask);

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads);  // [B, T, heads * d] -> [B, heads, T, d]
torch::Tensor join_heads(const torch::Tensor& x);                  // and back

// positions [B, T], or [3, B, T] where the configuration turns sections of a head by time, height and width.
RotaryTable make_rotary(const torch::Tensor& positions, int64_t head_dim, const RotaryConfig& config,
                        at::ScalarType type);
RotaryTable make_rotary(const torch::Tensor& positions, int64_t head_dim, double theta, at::ScalarType type);
torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& positions, double theta);

}  // namespace asr
