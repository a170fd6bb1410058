#include "metrics/forgetting_bound.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "metrics/assignment.h"

namespace asr {
namespace {

double mean_risk(const Vector& score) {
  double sum = 0;
  for (double value : score) sum += 1 - value;
  return sum / static_cast<double>(score.size());
}

// At most `most` rows, evenly spaced, the same ones of every table of one length.
std::vector<Vector> spaced_rows(const std::vector<Vector>& rows, size_t most) {
  if (rows.size() <= most) return rows;
  std::vector<Vector> out;
  for (size_t i = 0; i < most; ++i) out.push_back(rows[i * rows.size() / most]);
  return out;
}

// The metric alone is floored. The laws keep their own variances: a constant coordinate is its own Gaussian.
struct RowLaws {
  Gaussian before, after;
  Vector metric;
};

RowLaws laws_of_rows(const std::vector<Vector>& old_rows, const std::vector<Vector>& new_rows, double variance_floor) {
  check(variance_floor > 0, "the smallest variance of the metric must be > 0");
  RowLaws out{law_of(old_rows), law_of(new_rows), {}};
  out.metric = out.before.variance;
  for (double& value : out.metric) value = std::max(value, variance_floor);
  return out;
}

}  // namespace

SkillDrift drift_of_skill(const PairedSamples& samples, double variance_floor) {
  const size_t n = samples.old_rows.size();
  check(n >= 2 && samples.new_rows.size() == n && samples.old_score.size() == n && samples.new_score.size() == n,
        "the drift of a skill needs the same samples twice, two or more; found ", n, " and ", samples.new_rows.size());
  const auto laws = laws_of_rows(samples.old_rows, samples.new_rows, variance_floor);
  SkillDrift out;
  out.samples = static_cast<int64_t>(n);
  out.delta = whitened_w2(laws.after, laws.before, laws.metric);
  out.gamma_old = non_gaussianity(samples.old_rows, laws.before, laws.metric);
  out.gamma_new = non_gaussianity(samples.new_rows, laws.after, laws.metric);
  const auto matched = spaced_rows(samples.old_rows, kMostMatched);
  out.matched = static_cast<int64_t>(matched.size());
  out.w1 = wasserstein_1(matched, spaced_rows(samples.new_rows, kMostMatched), laws.metric);
  out.old_risk = mean_risk(samples.old_score);
  out.new_risk = mean_risk(samples.new_score);
  return out;
}

double drift_of_rows(const std::vector<Vector>& old_rows, const std::vector<Vector>& new_rows, double variance_floor) {
  const auto laws = laws_of_rows(old_rows, new_rows, variance_floor);
  return whitened_w2(laws.after, laws.before, laws.metric);
}

void fill_shares(Transition& transition) {
  int64_t total = 0;
  for (const auto& skill : transition.skills) total += skill.samples;
  for (auto& skill : transition.skills) skill.share = static_cast<double>(skill.samples) / static_cast<double>(total);
}

std::map<int64_t, SkillFit> fit_skills(const std::vector<Transition>& transitions, size_t left_out) {
  std::map<int64_t, std::pair<Vector, Vector>> points;
  for (size_t i = 0; i < transitions.size(); ++i) {
    if (i == left_out) continue;
    for (const auto& skill : transitions[i].skills) {
      auto& [w1, increase] = points[skill.skill];
      w1.push_back(skill.w1);
      increase.push_back(skill.risk_increase());
    }
  }
  std::map<int64_t, SkillFit> out;
  for (const auto& [skill, table] : points)
    out[skill] = {fit_risk(table.first, table.second), static_cast<int64_t>(table.first.size())};
  return out;
}

ForgettingBound forgetting_bound(const Transition& transition, const std::map<int64_t, SkillFit>& fits) {
  ForgettingBound out;
  for (const auto& skill : transition.skills) {
    out.risk_increase += skill.share * skill.risk_increase();
    const auto place = fits.find(skill.skill);
    const double lipschitz = place == fits.end() ? NAN : place->second.fit.lipschitz;
    const double slack = place == fits.end() ? NAN : 2 * place->second.fit.epsilon;
    out.by_w1 += skill.share * (lipschitz * skill.w1 + slack);
    out.by_gaussian += skill.share * (lipschitz * skill.gaussian_drift() + slack);
  }
  out.forgetting = std::max(0.0, out.risk_increase);
  return out;
}

}  // namespace asr
