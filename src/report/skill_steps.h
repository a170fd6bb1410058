// How far the spectra of each skill moved from one stage to the next, and what accuracy that stage cost it: the points
// of the figures on drift (definitions: docs/maths.md, "Diagnostics"). Both stages are compared on the same samples.
// Plain numbers of analysis files: the report knows nothing of torch.
#pragma once

#include <string>
#include <vector>

#include "report/run_files.h"

namespace asr {

// What is not measured is NaN.
struct SkillStep {
  std::string skill;
  int64_t from = 0, to = 0;            // stages
  double prototype = kUnknown;         // L2 of the descriptors' means
  double divergence = kUnknown;        // Jensen-Shannon, of radial and angular spectra together
  double w2 = kUnknown;                // of diagonal Gaussians, whitened by the older variance
  double embedding = kUnknown;         // L2 of the mean embeddings
  double fine_loss = kUnknown;         // energy lost by the radial bins whose centre is above 0.5
  double entropy_increase = kUnknown;  // nats
  double lost = kUnknown;              // points of accuracy; negative where the skill got better
};

// Jensen-Shannon, of radial and angular spectra together; NaN where a file has none.
double divergence_between(const SpectraMoments& old, const SpectraMoments& now);
// Below `floor` a variance counts as that; NaN where one is still 0.
double whitened_drift(const SpectraMoments& old, const SpectraMoments& now, double floor);
// Smallest variance, as the file's options say; 0 where they say nothing.
double variance_floor(const AnalysisFile& file);

struct SkillSteps {
  std::vector<SkillStep> steps;
  std::string problem;  // why there are none
};
SkillSteps skill_steps(const Run& run);

// The analyses of all stages, or why there are none.
struct RunAnalyses {
  std::vector<StageAnalysis> stages;
  std::string problem;
};
RunAnalyses read_analyses(const Run& run);

}  // namespace asr
