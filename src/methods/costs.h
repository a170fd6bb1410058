// What a method costs beside plain training, by its own account; train/estimate.cpp adds it up. Formulas over sizes:
// nothing is loaded or measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "spectral/options.h"

namespace asr {

// The sizes that costs depend on. The method's own options are set; `prepare` was not called.
struct CostContext {
  explicit CostContext(const Options& run_options) : options(run_options) {}

  const Options& options;
  double parameters = 0;             // trained numbers
  double layers = 0, width = 0;      // of the language model
  double picture_bytes = 0;          // of a training sample's picture, decoded
  std::vector<double> task_samples;  // for training, a task each
  double epochs = 1;                 // through them
  bool augments = false;             // their pictures are changed anew in every epoch

  double samples() const {
    double out = 0;
    for (const double count : task_samples) out += count;
    return out;
  }
  // Of at most so many samples' pictures as image files: 640 x 480 is a JPEG of about 130 KB, a seventh of its pixels.
  double kept_picture_bytes(int64_t most) const {
    return std::min(static_cast<double>(most), samples()) * picture_bytes / 7;
  }
  // Over all tasks, at most so many of each; 0: all.
  double samples_up_to(int64_t limit) const {
    double out = 0;
    for (const double count : task_samples) out += limit > 0 ? std::min(static_cast<double>(limit), count) : count;
    return out;
  }
};

struct MethodCosts {
  double device_bytes = 0, host_bytes = 0;  // kept while training, beside adapters and their moments
  double checkpoint_bytes = 0;
  double trained = 0;                // numbers that are trained beside the adapters
  double forward_passes = 0;         // of every sample of a step, beside the pass that trains
  double picture_passes = 0;         // of a step's samples through the vision tower alone, where features are not kept
  double answer_picture_passes = 0;  // the same of every answer
  double forward_samples = 0;        // samples that go through the model after stages, in all stages together
  double backward_samples = 0;       // the same, with a backward pass
  int64_t measured_stages = 0;       // whose spectral moments it asks for
  bool reference = false;            // embeddings of the base model for every training sample

  MethodCosts& operator+=(const MethodCosts& other) {
    device_bytes += other.device_bytes;
    host_bytes += other.host_bytes;
    checkpoint_bytes += other.checkpoint_bytes;
    trained += other.trained;
    forward_passes += other.forward_passes;
    picture_passes += other.picture_passes;
    answer_picture_passes += other.answer_picture_passes;
    forward_samples += other.forward_samples;
    backward_samples += other.backward_samples;
    measured_stages = std::max(measured_stages, other.measured_stages);  // measured once for all
    reference = reference || other.reference;
    return *this;
  }
};

}  // namespace asr
