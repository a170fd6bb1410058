// Single samples of a run's analysis files, stage by stage: what `asr bound` and `asr premise` look at.
#pragma once

#include <string>
#include <vector>

#include "io/analysis_file.h"
#include "metrics/measured_transitions.h"
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

std::vector<int64_t> stages_in(const std::string& folder);  // that were analysed
// The folder itself, or the methods' folders in it.
std::vector<std::string> method_folders(const std::string& path);

}  // namespace asr
