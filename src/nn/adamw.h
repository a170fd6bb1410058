// AdamW (Loshchilov and Hutter) over one flat buffer: parameters, gradients and both moments are single tensors, and
// the parameters of the model become views into the first. One set of operations serves any number of parameters.
#pragma once

#include <torch/types.h>

#include <vector>

namespace asr {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

class AdamW {
 public:
  // Takes over the storage of `parameters` and of their gradients; start anew for every stage.
  AdamW(std::vector<torch::Tensor> parameters, const AdamWOptions& options);

  void zero_grad();
  torch::Tensor clip(double largest_norm);  // scales the gradient down to this norm; returns the norm before
  void step(double learning_rate);

  torch::Tensor& gradient() { return gradient_; }            // [P]
  const torch::Tensor& parameters() const { return flat_; }  // [P]

  // What a checkpoint holds: both moments and the number of steps.
  torch::Tensor first, second;
  int64_t steps = 0;

 private:
  AdamWOptions options_;
  std::vector<torch::Tensor> parameters_;
  torch::Tensor flat_, gradient_;
};

// Cosine from `peak` at the first step to 0 after the last, after `warmup` linear steps.
double cosine_rate(double peak, int64_t step, int64_t total, int64_t warmup);

}  // namespace asr
