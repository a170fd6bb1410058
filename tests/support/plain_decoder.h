// A decoder computed as its formulas read, in double and with whole attention matrices: what passes are compared with.
#pragma once

#include <torch/types.h>

#include <cmath>
#include <vector>

#include "nn/decoder.h"
#include "nn/rotary_config.h"

namespace asr {

struct PlainStates {
  torch::Tensor hidden;                    // [B, T, width]
  std::vector<torch::Tensor> self, cross;  // [B, heads, T, T or V] a layer
};

class PlainDecoder {
 public:
  explicit PlainDecoder(const Decoder& decoder) : d_(decoder) {}

  // x [B, T, width], positions [B, T] or [3, B, T], mask [B, T]; memory [B, V, width] or undefined.
  PlainStates operator()(torch::Tensor x, const torch::Tensor& positions, const torch::Tensor& mask,
                         const torch::Tensor& memory = {}) const {
    const auto& c = d_.config;
    const int64_t T = x.size(1);
    const auto hidden = mask.logical_not()
                            .view({-1, 1, 1, T})
                            .logical_or(torch::ones({T, T}, at::kBool).triu(1));  // keys that a row does not see
    PlainStates out;
    for (const auto& l : d_.layers) {
      const auto in = normed(l.attention_norm, x);
      const auto q = turned(heads(apply(l.q, in), c.heads), positions);
      const auto k = turned(heads(apply(l.k, in), c.kv_heads), positions);
      out.self.push_back(weights(q, k.repeat_interleave(c.heads / c.kv_heads, 1), hidden));
      const auto v = heads(apply(l.v, in), c.kv_heads).repeat_interleave(c.heads / c.kv_heads, 1);
      x = x + apply(l.o, joined(out.self.back().matmul(v)));
      if (memory.defined()) {
        const auto seen = memory.to(at::kDouble);
        const auto cross_q = heads(apply(l.cross.q, normed(l.cross.norm, x)), c.heads);
        out.cross.push_back(weights(cross_q, heads(apply(l.cross.k, seen), c.heads), {}));
        x = x + apply(l.cross.o, joined(out.cross.back().matmul(heads(apply(l.cross.v, seen), c.heads))));
      }
      const auto between = normed(l.mlp_norm, x);
      const auto gate = apply(l.gate, between);
      x = x + apply(l.down, gate * gate.sigmoid() * apply(l.up, between));
    }
    out.hidden = normed(d_.final_norm, x);
    return out;
  }

  static torch::Tensor apply(const Linear& linear, const torch::Tensor& x) {
    const auto y = x.matmul(linear.weight.to(at::kDouble).t());
    return linear.bias.defined() ? y + linear.bias.to(at::kDouble) : y;
  }

 private:
  static torch::Tensor normed(const RmsNorm& norm, const torch::Tensor& x) {
    return x / (x.square().mean(-1, true) + norm.eps).sqrt() * norm.weight.to(at::kDouble);
  }
  static torch::Tensor heads(const torch::Tensor& x, int64_t count) {
    return x.view({x.size(0), x.size(1), count, -1}).transpose(1, 2);
  }
  static torch::Tensor joined(const torch::Tensor& x) { return x.transpose(1, 2).flatten(2); }
  static torch::Tensor weights(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& hidden) {
    auto scores = q.matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
    if (hidden.defined()) scores = scores.masked_fill(hidden, -1e300);
    return scores.softmax(-1);
  }
  // Pairs (i, i + d / 2) turned by position times speed; with sections, each pair by its own part of the position.
  torch::Tensor turned(const torch::Tensor& x, const torch::Tensor& positions) const {
    const auto& rotary = d_.config.rotary;
    const int64_t half = x.size(3) / 2;
    const auto speeds = rotary_speeds(rotary, x.size(3), positions.max().item<int64_t>() + 1);
    std::vector<torch::Tensor> angles;
    size_t section = 0;
    int64_t end = rotary.sections.empty() ? half : rotary.sections[0];
    for (int64_t i = 0; i < half; ++i) {
      if (i == end) end += rotary.sections[++section];
      const auto place = positions.dim() == 3 ? positions[static_cast<int64_t>(section)] : positions;
      angles.push_back(place.to(at::kDouble) * speeds[static_cast<size_t>(i)]);
    }
    const auto angle = at::stack(angles, -1).unsqueeze(1);  // [B, 1, T, d / 2]
    const auto a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
    return at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, 3);
  }

  const Decoder& d_;
};

// The first layers alone, closed by the input norm of the one after them.
inline Decoder first_layers(Decoder decoder, size_t count) {
  decoder.final_norm = decoder.layers.at(count).attention_norm;
  decoder.layers.resize(count);
  return decoder;
}

}  // namespace asr
