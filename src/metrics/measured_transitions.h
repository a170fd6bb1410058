// Theorem 1 between two stages of a run, from the samples of their analysis files: `asr bound`, `asr premise` and the
// report look at the same numbers.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "io/analysis_file.h"
#include "metrics/forgetting_bound.h"

namespace asr {

// The same samples of a skill before and after, of these tasks, which both files must have measured (shared_tasks).
PairedSamples paired_samples(const AnalysisFile& before, const AnalysisFile& after, int64_t skill,
                             const std::set<std::string>& tasks);

// Every skill of `before` with at least two samples in both files. A floor below 1e-12 is raised to that: options allow
// 0, and a metric of 0 measures nothing. The numbers of the stages are the caller's to fill in.
struct MeasuredTransition {
  Transition transition;
  struct TooFew {
    int64_t skill;
    size_t samples;  // that both files have
  };
  std::vector<TooFew> left_out;
};
MeasuredTransition measured_transition(const AnalysisFile& before, const AnalysisFile& after, double variance_floor);

}  // namespace asr
