// Factors of experts, once for every sample of a batch: y = W x + s B_i A_i x with the copies of the row's own sample
// i. The gradient of a copy is that of its sample, so one pass gives the gradients of all of them.
#pragma once

#include <torch/types.h>

#include <vector>

#include "nn/linear.h"

namespace asr {

// The copies stand in the place of the experts for as long as this lives. Other factors at the sites take no gradient
// meanwhile: what lies before the first copy then costs a pass without gradient.
class SampleCopies {
 public:
  SampleCopies(const std::vector<AdapterSite>& sites, const std::vector<torch::Tensor>& factors, int64_t samples);
  ~SampleCopies();
  SampleCopies(const SampleCopies&) = delete;
  SampleCopies& operator=(const SampleCopies&) = delete;

  // Whether each factor is of an expert that stands alone in its slot, without a gate, and those of a slot have one
  // rank.
  static bool fit(const std::vector<AdapterSite>& sites, const std::vector<torch::Tensor>& factors);

  const GivenWeights& given() const { return given_; }  // for the pass
  // Of the sum of the samples' losses: a row for each, with its gradients for the factors, flat and in their order.
  torch::Tensor gradients_of(const torch::Tensor& loss) const;  // [samples, numbers] float32

 private:
  int64_t samples_;
  GivenWeights given_;
  std::vector<torch::Tensor> copies_;                       // of each factor: [samples * r, in] or [out, samples * r]
  std::vector<bool> by_rows_;                               // whether it is an A
  std::vector<std::pair<SlotAtSite*, SlotAtSite>> places_;  // with what stood there
  std::vector<torch::Tensor> stopped_;                      // factors that took a gradient before
};

}  // namespace asr
