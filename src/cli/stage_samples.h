// Single samples of a run's analysis files, stage by stage: what `asr bound` and `asr premise` look at.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "io/analysis_file.h"
#include "spectral/forgetting_bound.h"
#include "spectral/options.h"

namespace asr {

// One analysis file and what its descriptors were made with.
struct StageSamples {
  int64_t stage = 0;
  Options options;
  AnalysisFile file;
  const std::vector<Vector>& descriptor() const { return file.samples.descriptor; }
  const std::vector<int64_t>& skill() const { return file.samples.skill; }
};

StageSamples read_stage_samples(const std::string& path, int64_t stage);

// The same samples of a skill before and after, of these tasks, which both files must have measured (shared_tasks).
PairedSamples paired_samples(const AnalysisFile& before, const AnalysisFile& after, int64_t skill,
                             const std::set<std::string>& tasks);

// NaN where it is not defined: one group, or samples that do not differ.
double separation_or_nan(const std::vector<Vector>& rows, const std::vector<int64_t>& group);

std::vector<int64_t> stages_in(const std::string& folder);  // that were analysed
// The folder itself, or the methods' folders in it.
std::vector<std::string> method_folders(const std::string& path);

}  // namespace asr
