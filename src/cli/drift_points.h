// Drift against forgetting (docs/maths.md, "The premise"). A point is a skill in a task between two stages: how far its
// spectra moved, and how much more often it failed.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/stage_samples.h"
#include "report/correlation.h"

namespace asr {

// Pairs of drift and forgetting.
struct DriftPoints {
  PairedValues averaged;            // of the descriptors
  std::vector<PairedValues> heads;  // of every head, layer by layer; empty where their spectra were not kept
};

struct RunDrift {
  DriftPoints step;                     // between consecutive stages
  DriftPoints since_learnt;             // from the stage that learnt a task to every later one
  int64_t layers = 0, layer_heads = 0;  // 0: not kept
};

RunDrift drift_points(const std::vector<StageSamples>& stages);

// The points of all runs together. Where models differ in layers or heads, a head of one is none of another: then heads
// are left out, with a warning.
RunDrift pooled_drift(const std::vector<RunDrift>& runs);

}  // namespace asr
