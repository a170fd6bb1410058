#include "report/skill_steps.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "metrics/diagnostics.h"

namespace asr {

double variance_floor(const AnalysisFile& file) {
  double floor = 0;
  if (file.options.empty()) return floor;
  const auto options = dotted_options(parse_json(file.options, file.path + " (metadata 'options')"));
  const auto place = options.find("spectral.covariance_floor");
  if (place != options.end()) parse_double(place->second, floor);
  return floor;
}

namespace {

SkillStep step_between(const SpectraMoments& old, const SpectraMoments& now, double floor) {
  SkillStep out;
  if (!old.mean.empty()) out.prototype = l2_distance(old.mean, now.mean);
  out.divergence = divergence_between(old, now);
  out.w2 = whitened_drift(old, now, floor);
  if (!old.embedding.empty()) out.embedding = l2_distance(old.embedding, now.embedding);
  if (!old.radial.empty()) out.fine_loss = high_frequency_loss(old.radial, now.radial);
  out.entropy_increase = now.entropy - old.entropy;
  out.lost = 100 * (old.accuracy - now.accuracy);
  return out;
}

}  // namespace

double divergence_between(const SpectraMoments& old, const SpectraMoments& now) {
  if (old.radial.empty() || old.angular.empty()) return kUnknown;
  return spectral_drift(old.radial, now.radial, old.angular, now.angular);
}

double whitened_drift(const SpectraMoments& old, const SpectraMoments& now, double floor) {
  if (old.mean.empty() || old.variance.size() != old.mean.size()) return kUnknown;
  Gaussian before{old.mean, old.variance}, after{now.mean, now.variance};
  for (auto* law : {&before, &after})
    for (double& value : law->variance) value = std::max(floor, value);
  const bool known = *std::min_element(before.variance.begin(), before.variance.end()) > 0;
  return known ? gaussian_drift(after, before) : kUnknown;
}

RunAnalyses read_analyses(const Run& run) {
  RunAnalyses out;
  for (int64_t stage : analysed_stages(run)) out.stages.push_back(read_analysis(run, stage, false));
  if (out.stages.empty()) return {{}, "it has no stages/*/analysis.safetensors."};
  for (const auto& stage : out.stages)
    if (!stage.spectra) return {{}, "its analysis files pool all tasks, as an older version wrote them; run it again."};
  return out;
}

SkillSteps skill_steps(const Run& run) {
  SkillSteps out;
  const auto analyses = read_analyses(run);
  out.problem = analyses.problem;
  for (size_t i = 1; i < analyses.stages.size(); ++i) {
    const auto &before = analyses.stages[i - 1], &after = analyses.stages[i];
    const double floor = variance_floor(*before.spectra);
    for (int64_t skill : before.spectra->skills()) {
      const auto tasks = shared_tasks(*before.spectra, *after.spectra, skill);
      if (tasks.empty()) continue;
      auto step = step_between(before.spectra->moments(skill, tasks), after.spectra->moments(skill, tasks), floor);
      step.skill = before.spectra->skill_name(skill);
      step.from = before.stage;
      step.to = after.stage;
      out.steps.push_back(std::move(step));
    }
  }
  if (out.problem.empty() && out.steps.empty()) out.problem = "a single stage has no drift.";
  return out;
}

}  // namespace asr
