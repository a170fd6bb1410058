// A model file with random weights under the names given, and the same weights at hand for a plain computation.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "nn/weights.h"
#include "tensor/tensor_io.h"
#include "tests/support/files.h"

namespace asr {

class RandomModel {
 public:
  explicit RandomModel(uint64_t seed) { torch::manual_seed(seed); }

  void tensor(const std::string& name, std::vector<int64_t> shape, double deviation = 0.5) {
    tensors_[name] = torch::randn(shape) * deviation;
  }
  void linear(const std::string& name, int64_t out, int64_t in, bool bias = true) {
    tensor(name + ".weight", {out, in}, 1 / std::sqrt(static_cast<double>(in)));
    if (bias) tensor(name + ".bias", {out}, 0.2);
  }
  void norm(const std::string& name, int64_t width, bool bias = true) {
    tensors_[name + ".weight"] = 1 + torch::randn({width}) * 0.2;
    if (bias) tensor(name + ".bias", {width}, 0.2);
  }
  void remove(const std::string& name) { tensors_.erase(name); }

  // In double, for the plain computation.
  torch::Tensor operator[](const std::string& name) const { return tensors_.at(name).to(at::kDouble); }
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  int64_t size() const {
    int64_t sum = 0;
    for (const auto& [name, tensor] : tensors_) sum += tensor.numel();
    return sum;
  }

  Weights weights() const {
    const NamedTensors list(tensors_.begin(), tensors_.end());
    save_tensors(folder_ / "model.safetensors", list, {});
    return Weights(folder_.path());
  }

  // ---- the plain computations -------------------------------------------------------------------------------------

  torch::Tensor apply(const std::string& name, const torch::Tensor& x) const {
    const auto y = x.matmul((*this)[name + ".weight"].flatten(1).t());
    return has(name + ".bias") ? y + (*this)[name + ".bias"] : y;
  }
  torch::Tensor layer_normed(const std::string& name, const torch::Tensor& x, double eps) const {
    const auto centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + eps).sqrt() * (*this)[name + ".weight"] +
           (*this)[name + ".bias"];
  }
  torch::Tensor rms_normed(const std::string& name, const torch::Tensor& x, double eps) const {
    return x / (x.square().mean(-1, true) + eps).sqrt() * (*this)[name + ".weight"];
  }
  static torch::Tensor gelu(const torch::Tensor& x) { return x * 0.5 * (1 + (x / std::sqrt(2.0)).erf()); }

 private:
  std::map<std::string, torch::Tensor> tensors_;
  TemporaryFolder folder_;
};

// Attention weights [B, heads, T, S] of q [B, T, w] and k [B, S, w]; hidden [.., T, S] true where a key is not seen.
inline torch::Tensor plain_weights(const torch::Tensor& q, const torch::Tensor& k, int64_t heads,
                                   const torch::Tensor& hidden = {}) {
  const int64_t width = q.size(2) / heads;
  const auto cut = [&](const torch::Tensor& x) { return x.view({x.size(0), x.size(1), heads, width}).transpose(1, 2); };
  auto scores = cut(q).matmul(cut(k).transpose(2, 3)) / std::sqrt(static_cast<double>(width));
  if (hidden.defined()) scores = scores.masked_fill(hidden, -INFINITY);
  const auto grown = scores.exp();
  return grown / grown.sum(-1, true);
}

inline torch::Tensor plain_mix(const torch::Tensor& weights, const torch::Tensor& v) {
  const int64_t heads = weights.size(1);
  const auto cut = v.view({v.size(0), v.size(1), heads, -1}).transpose(1, 2);
  return weights.matmul(cut).transpose(1, 2).reshape({v.size(0), weights.size(2), -1});
}

// The learnt positions of a grid at another size, cubic with a = -0.75 and pixel centres, edges repeated.
inline torch::Tensor plain_resize(const torch::Tensor& grid, int64_t rows, int64_t columns) {  // [h, w, c]
  const auto kernel = [](double t) {
    t = std::abs(t);
    const double a = -0.75;
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0.0;
  };
  const auto matrix = [&](int64_t from, int64_t to) {
    auto out = torch::zeros({to, from}, at::kDouble);
    for (int64_t i = 0; i < to; ++i) {
      const double centre = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
      const auto below = static_cast<int64_t>(std::floor(centre));
      for (int64_t j = below - 1; j <= below + 2; ++j)
        out[i][std::clamp<int64_t>(j, 0, from - 1)] += kernel(centre - static_cast<double>(j));
    }
    return out;
  };
  const auto tall = at::einsum("ih,hwc->iwc", {matrix(grid.size(0), rows), grid});
  return at::einsum("jw,iwc->ijc", {matrix(grid.size(1), columns), tall}).contiguous();
}

}  // namespace asr
