// AdamW (Loshchilov and Hutter) over one flat buffer: parameters, gradients and both moments are single tensors, and
// the parameters of the model become views into the first. One set of operations serves any number of parameters;
// groups with a rate or a decay of their own are stretches of the buffer.
#pragma once

#include <torch/types.h>

#include <vector>

namespace asr {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

struct AdamWGroup {
  std::vector<torch::Tensor> parameters;
  double learning_rate = 0;  // peak of its own, scheduled like the others'; 0: the common one
  double weight_decay = -1;  // below 0: that of the options
};

class AdamW {
 public:
  // Takes over the storage of `parameters` and of their gradients; start anew for every stage.
  AdamW(std::vector<torch::Tensor> parameters, const AdamWOptions& options);
  AdamW(const std::vector<AdamWGroup>& groups, const AdamWOptions& options);

  void zero_grad();
  torch::Tensor clip(double largest_norm);  // scales the gradient down to this norm; returns the norm before
  // `schedule` is where the schedule stands, 0 to 1: the part of their peak that groups with a rate of their own take.
  void step(double learning_rate, double schedule = 1);

  torch::Tensor& gradient() { return gradient_; }            // [P]
  const torch::Tensor& parameters() const { return flat_; }  // [P]

  // What a checkpoint holds: both moments and the number of steps.
  torch::Tensor first, second;
  int64_t steps = 0;

 private:
  struct Stretch {
    int64_t begin = 0, size = 0;
    double learning_rate = 0, weight_decay = 0;
  };
  AdamWOptions options_;
  std::vector<torch::Tensor> parameters_;
  std::vector<Stretch> stretches_;
  torch::Tensor flat_, gradient_;
};

// Cosine from `peak` at the first step to 0 after the last, after `warmup` linear steps.
double cosine_rate(double peak, int64_t step, int64_t total, int64_t warmup);

}  // namespace asr
