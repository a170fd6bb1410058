#include "report/skill_steps.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/json.h"
#include "base/text.h"

namespace asr {
namespace {

// Smallest variance, as the file's options say; 0 where they say nothing.
double variance_floor(const AnalysisFile& file) {
  double floor = 0;
  if (file.options.empty()) return floor;
  const auto options = dotted_options(parse_json(file.options, file.path + " (metadata 'options')"));
  const auto place = options.find("spectral.covariance_floor");
  if (place != options.end()) parse_double(place->second, floor);
  return floor;
}

SkillStep step_between(const SpectraMoments& old, const SpectraMoments& now, double floor) {
  SkillStep out;
  out.prototype = euclidean(old.mean, now.mean);
  out.divergence = spectrum_divergence(old.radial, now.radial) + spectrum_divergence(old.angular, now.angular);
  out.w2 = whitened_drift(old, now, floor);
  out.embedding = euclidean(old.embedding, now.embedding);
  out.fine_loss = fine_energy_loss(old.radial, now.radial);
  out.entropy_increase = now.entropy - old.entropy;
  out.lost = 100 * (old.accuracy - now.accuracy);
  return out;
}

}  // namespace

double spectrum_divergence(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < std::min(p.size(), q.size()); ++i) {
    const double m = (p[i] + q[i]) / 2;
    if (p[i] > 0) sum += p[i] * std::log(p[i] / m) / 2;
    if (q[i] > 0) sum += q[i] * std::log(q[i] / m) / 2;
  }
  return sum;
}

double euclidean(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || a.size() != b.size()) return kUnknown;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double whitened_drift(const SpectraMoments& old, const SpectraMoments& now, double floor) {
  if (old.mean.empty() || old.mean.size() != now.mean.size() || old.variance.size() != now.variance.size())
    return kUnknown;
  double sum = 0;
  for (size_t i = 0; i < old.mean.size(); ++i) {
    const double before = std::max(floor, old.variance[i]), after = std::max(floor, now.variance[i]);
    if (!(before > 0)) return kUnknown;
    const double shift = now.mean[i] - old.mean[i], spread = std::sqrt(after) - std::sqrt(before);
    sum += (shift * shift + spread * spread) / before;
  }
  return std::sqrt(sum);
}

double fine_energy_loss(const std::vector<double>& old, const std::vector<double>& now) {
  if (old.empty() || old.size() != now.size()) return kUnknown;
  double sum = 0;
  for (size_t k = 0; k < old.size(); ++k)
    if ((static_cast<double>(k) + 0.5) / static_cast<double>(old.size()) > 0.5) sum += old[k] - now[k];
  return sum;
}

std::vector<double> six_numbers(const std::vector<double>& radial, const std::vector<double>& anisotropy) {
  std::vector<double> out(6, 0);
  std::vector<int> bins(3, 0);
  const auto third = [](size_t i, size_t n) {
    const double centre = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    return static_cast<size_t>(std::min(2.0, std::floor(3 * centre + 1e-12)));
  };
  for (size_t k = 0; k < radial.size(); ++k) out[third(k, radial.size())] += radial[k];
  for (size_t m = 0; m < anisotropy.size(); ++m) {
    const size_t place = third(m, anisotropy.size());
    out[3 + place] += anisotropy[m];
    ++bins[place];
  }
  for (size_t i = 0; i < 3; ++i)
    if (bins[i] > 0) out[3 + i] /= bins[i];
  return out;
}

double separation_of(const std::vector<std::vector<double>>& samples, const std::vector<int64_t>& skill) {
  std::map<int64_t, std::vector<double>> means;
  std::map<int64_t, double> counts;
  for (size_t i = 0; i < samples.size() && i < skill.size(); ++i) {
    auto& mean = means[skill[i]];
    mean.resize(samples[i].size(), 0);
    for (size_t d = 0; d < mean.size(); ++d) mean[d] += samples[i][d];
    ++counts[skill[i]];
  }
  for (auto& [key, mean] : means)
    for (double& value : mean) value /= counts[key];
  double within = 0, between = 0, pairs = 0;
  for (size_t i = 0; i < samples.size() && i < skill.size(); ++i) within += euclidean(samples[i], means[skill[i]]);
  for (auto a = means.begin(); a != means.end(); ++a)
    for (auto b = std::next(a); b != means.end(); ++b) {
      between += euclidean(a->second, b->second);
      ++pairs;
    }
  if (pairs == 0 || !(within > 0)) return kUnknown;
  return between / pairs / (within / static_cast<double>(samples.size()));
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
