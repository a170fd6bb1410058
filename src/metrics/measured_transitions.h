// Theorem 1 between two stages of a run, from the samples of their analysis files: `asr bound`, `asr premise` and the
// report look at the same numbers.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "io/analysis_file.h"
#include "metrics/forgetting_bound.h"

namespace asr {

constexpr double kSmallestMetric = 1e-12;  // options allow a floor of 0, and a metric of 0 measures nothing

// Where the same samples of a skill stand in both files, of these tasks, which both must have measured (shared_tasks).
struct PairedPlaces {
  std::vector<size_t> before, after;
};
PairedPlaces paired_places(const AnalysisFile& before, const AnalysisFile& after, int64_t skill,
                           const std::set<std::string>& tasks);
// Their descriptors and scores.
PairedSamples paired_samples(const AnalysisFile& before, const AnalysisFile& after, int64_t skill,
                             const std::set<std::string>& tasks);

// Every skill of `before` with at least two samples in both files. A floor below kSmallestMetric is raised to that. The
// numbers of the stages are the caller's to fill in.
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
