// The anchored loss: squared ways of what a sample shows from what it showed before a stage's first step, weighed by
// the variances that the memory holds. The formula stands in docs/maths.md; where anchors come from, in
// methods/terms/anchors.h.
#pragma once

#include <torch/types.h>

#include "spectral/options.h"
#include "spectral/spectral_loss.h"

namespace asr {

// The entries that count, and what each weighs: p_i = sum_k w_ik precision_k of the k rows, w of the caller.
struct AnchorWeights {
  torch::Tensor entries;    // [n'] int64, of the n that are seen
  torch::Tensor precision;  // [k, n'], times the mean variance
  double unit = 1;          // 1 / mean variance: every metric has this mean, so that one weight means one strength

  torch::Tensor of_samples(const torch::Tensor& w) const { return w.matmul(precision); }  // [B, k] to [B, n']
};

// By the stored variances: k is the number of prototypes with asr.metric=posterior, otherwise 1. Entries that carry no
// gradient (radius and angle of the peak) and those that asr.spectrum leaves out do not count.
AnchorWeights anchor_weights(const PrototypeTensors& prototypes, const Options& options,
                             const at::TensorOptions& compute);

// unit * sum p (seen - anchor)^2 / sum p over the whole batch's samples and entries, which is the mean with p scaled to
// the mean `unit`. p [B, n'] is 0 in rows without an anchor; `all` is the sum of p over all processes, and the result
// is this process's summand.
struct AnchoredBatch {
  torch::Tensor seen, anchor;  // [B, n]
  torch::Tensor p;
  double all = 0;
};
torch::Tensor anchored_loss(const AnchorWeights& weights, const AnchoredBatch& batch);

}  // namespace asr
