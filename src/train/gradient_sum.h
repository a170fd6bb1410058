// The sum of gradients over the processes of a run, in stretches of AdamW's flat buffer. A stretch goes out as soon as
// the backward pass has made all its gradients, while the rest is still being computed; stretches go out in one order,
// from the end of the buffer to its beginning, so that every process does the same. Summed after the backward pass
// instead, the same stretches give the same bits: that is the plain reference.
#pragma once

#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

#include "parallel/team.h"

namespace torch::autograd {
struct Node;
}

namespace asr {

class GradientSum {
 public:
  static constexpr int64_t kStretch = 1 << 20;  // numbers: 4 MB hide what starting a sum costs

  // `gradient`: the flat buffer of `parameters`, one after the other, in which their gradients are made.
  GradientSum(const Team& team, const std::vector<torch::Tensor>& parameters, const torch::Tensor& gradient,
              int64_t stretch = kStretch);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // The backward pass that comes now is the last before finish(): its gradients are whole. Not called, all is summed in
  // finish().
  void overlap();
  // Sends what has not gone out and waits for all; the buffer then holds the sum. Every process must come here.
  void finish();

  double waited() const { return waited_; }  // seconds of finish() that the last sum took after its backward pass
  int64_t stretches() const;
  int64_t bytes() const;                                 // of all of them
  int64_t started_early() const { return last_early_; }  // of the last sum: those sent during the backward pass

 private:
  struct Inside;
  std::shared_ptr<Inside> inside_;
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> nodes_;  // with their hooks
  double waited_ = 0;
  int64_t last_early_ = 0;
};

}  // namespace asr
