// What a few samples say of a model: gradients of whole weights, gradients of single samples, second moments of what a
// linear map reads, losses without the picture. Rows are the caller's (data/drawn_rows.h), the processes share
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
// CPU. As many sites at a time as fit into `room` bytes, at least one; each group of sites is a pass of its own.
// A batch's loss counts by its samples.
std::vector<torch::Tensor> weight_gradients(const Probe& probe, const std::vector<AdapterSite>& sites, int64_t room);

// What is kept of the gradients of a batch's samples, [samples, numbers]: a row for each, on the CPU. Empty: all.
using KeepGradients = std::function<torch::Tensor(const torch::Tensor&)>;

// The gradient of each row's own loss for these parameters, flat and in order, float32: [rows, numbers]. One sample at
// a time: the reference implementation of the next one.
torch::Tensor sample_gradients(const Probe& probe, const std::vector<torch::Tensor>& parameters,
                               const KeepGradients& keep = {});

// The same for factors of experts at these sites, Probe::batch samples in one pass: every sample has a copy of the
// factors, and gates let it through its own alone. The loss is asked for the SUM over the samples of a batch, with a
// pass whose given weights must be part of the model's pass. Experts that do not stand alone in a slot without a gate
// cannot go so; the samples then go one by one.
torch::Tensor sample_gradients_together(const Probe& probe, const std::vector<AdapterSite>& sites,
                                        const std::vector<torch::Tensor>& parameters, const KeepGradients& keep = {});

// Of every site: the mean of x x^T over all vectors x that it read, [in, in] in double, and how many there were.
// Samples go through alone, so that no padding is among them.
struct InputMoments {
  torch::Tensor second;  // [in, in]
  int64_t count = 0;
};
std::vector<InputMoments> input_moments(const Probe& probe, const std::vector<AdapterSite>& sites);

// What `losses` says of each row, [samples of the batch], with a blank picture in the place of its own: [rows] in
// double on the CPU.
using SampleLosses = std::function<torch::Tensor(const SampleBatch&)>;
torch::Tensor blank_losses(const Probe& probe, const SampleLosses& losses);

}  // namespace asr
