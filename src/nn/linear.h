// A linear map with low-rank experts added to a frozen weight: y = W x + b + sum_e s_e B_e A_e x. One adapter type
// serves every method; switching the experts off gives the base model back, without a second copy of it.
#pragma once

#include <torch/types.h>

#include <vector>

namespace asr {

struct Expert {
  torch::Tensor a, b;  // [r, in], [out, r]
  double scale = 1;    // alpha / r
};

// How a forward pass is run; passed down by value, never global.
struct Pass {
  bool experts = true;  // false: the base model alone, the reference of the geometry loss
};

struct Linear {
  torch::Tensor weight, bias;  // [out, in], [out] or undefined
  std::vector<Expert> experts;

  torch::Tensor operator()(const torch::Tensor& x, const Pass& pass) const;
};

// A starts random with standard deviation 1/sqrt(in), B at zero, so that the adapted model begins as the base.
Expert make_expert(const Linear& linear, int64_t rank, double alpha, const at::Generator& generator);

struct RmsNorm {
  torch::Tensor weight;
  double eps = 1e-6;
  torch::Tensor operator()(const torch::Tensor& x) const;
};

struct LayerNorm {
  torch::Tensor weight, bias;
  double eps = 1e-5;
  torch::Tensor operator()(const torch::Tensor& x) const;
};

}  // namespace asr
