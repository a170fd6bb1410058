// What a few samples say of a model: gradients of whole weights, gradients of single samples, second moments of what a
// linear map reads, losses with and without the picture. Rows are the caller's (data/drawn_rows.h), the processes share
// them out, a signal stops the pass, and sums are taken in the order of the rows, so that any number of processes
// finds the same bits.
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "backbones/backbone.h"
#include "data/sample_set.h"
#include "parallel/team.h"

namespace asr {

// The loss of a batch, a scalar mean with a gradient.
using ProbeLoss = std::function<torch::Tensor(const SampleBatch&, const Pass&)>;
ProbeLoss answer_loss(const Backbone& model);  // of the answer tokens

struct Probe {
  const Backbone& model;
  const SampleSet& set;
  std::vector<int64_t> rows;
  const Team& team;
  ProbeLoss loss = {};  // empty: answer_loss
  Pass pass = {};       // which adapters take part; Pass{0, nullptr}: the base
  int64_t batch = 16;   // samples that go through the model together, where they may
};

// The mean over the rows of the gradient of the weight that a site uses in this pass, [out, in] each, float32 on the
// CPU. As many sites at a time as `memory` bytes have room for, at least one; each group of sites is a pass of its own.
// A batch's loss counts by its samples.
std::vector<torch::Tensor> weight_gradients(const Probe& probe, const std::vector<AdapterSite>& sites, int64_t memory);

// The gradient of each row's own loss for these parameters, flat and in order, float32 on the CPU: [rows, numbers].
// `keep` may make less of a row's gradient [numbers] before it is kept: a norm, a projection.
torch::Tensor sample_gradients(const Probe& probe, const std::vector<torch::Tensor>& parameters,
                               const std::function<torch::Tensor(const torch::Tensor&)>& keep = {});

// Of every site: the mean of x x^T over all vectors x that it read, [in, in] in double, and how many there were.
// Samples go through alone, so that no padding is among them.
struct InputMoments {
  torch::Tensor second;  // [in, in]
  int64_t count = 0;
};
std::vector<InputMoments> input_moments(const Probe& probe, const std::vector<AdapterSite>& sites);

// Of each row, [rows] in double on the CPU.
struct PictureLosses {
  torch::Tensor with_picture, with_blank;
};
PictureLosses picture_losses(const Probe& probe);

}  // namespace asr
