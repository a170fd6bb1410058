// Spectra of a model's attention on given samples: what prototypes are made of, and what analyses look at.
#pragma once

#include <torch/types.h>

#include "backbones/backbone.h"
#include "data/objective.h"
#include "data/sample_set.h"
#include "parallel/team.h"
#include "spectral/memory.h"
#include "spectral/options.h"
#include "tensor/state.h"

namespace asr {

// Weights of tapped rows: functional question tokens, all question tokens where there is none; the model's own where
// the rows are no text. [B, Tq]
torch::Tensor row_weights(const Batch& batch, const Output& output);

struct Measured {
  torch::Tensor descriptor, radial, angular;  // [N, D], [N, K], [N, M]
  torch::Tensor map;                          // [N, H, W], the mean over layer-heads
  torch::Tensor entropy;                      // [N]
  torch::Tensor embedding;                    // [N, 2 width]: pooled image and text
  torch::Tensor posterior;                    // [N, skills]
  torch::Tensor heads;                        // [N, layers, heads, D0]: descriptors of each, where they are asked for
};

// In evaluation mode, in blocks of a fixed size that the processes share out; everything returned on the CPU, for all.
// It holds as much as it returns: for a bounded number of rows.
struct Spectrometer {
  const Backbone& model;
  PassFor pass;  // how each batch is passed
  const Options& options;
  int64_t tap_layers = 0;
  bool heads = false;  // wanted as well
};
Measured measure_spectra(const Spectrometer& with, const SampleSet& set, const std::vector<int64_t>& rows,
                         const Team& team);

// The moments of stage `stage` from these rows of its data. Each block goes into exact sums as it is measured, so that
// memory does not grow with the stage and any split gives the same bits.
struct MeasuredStage {
  const SampleSet& set;
  std::vector<int64_t> rows;
  int stage = 1;
};
StageMoments stage_moments(const Spectrometer& with, const MeasuredStage& of, const Team& team);

void visit_memory(PrototypeMemory& memory, StateVisitor& visitor);

}  // namespace asr
