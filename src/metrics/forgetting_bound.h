// Theorem 1 of the paper on measured samples: how much more an old skill may fail after training, from how far the law
// of its descriptors moved (docs/maths.md, "The forgetting bound"). Delta and W1 are exact for the samples
// given; Gamma, L and epsilon are estimates.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "metrics/diagnostics.h"

namespace asr {

// The same samples of one skill under the old and the new model, row by row.
struct PairedSamples {
  std::vector<Vector> old_rows, new_rows;  // descriptors
  Vector old_score, new_score;             // 1 is right; risk = 1 - score
};

// What one skill contributes between two stages. Distances are in the metric of the old variance, floored.
struct SkillDrift {
  int64_t skill = 0, samples = 0, matched = 0;  // matched: the samples W1 was taken on
  double share = 0;                             // omega: this skill's part of the shared samples
  double delta = 0, gamma_old = 0, gamma_new = 0, w1 = 0;
  double old_risk = 0, new_risk = 0;
  double risk_increase() const { return new_risk - old_risk; }
  double gaussian_drift() const { return gamma_old + delta + gamma_new; }  // at least W1, were Gamma known
};

constexpr size_t kMostMatched = 256;  // an assignment takes n^3 steps
SkillDrift drift_of_skill(const PairedSamples& samples, double variance_floor);

// Delta alone, of the same rows before and after.
double drift_of_rows(const std::vector<Vector>& old_rows, const std::vector<Vector>& new_rows, double variance_floor);

// Two consecutive stages. At least two samples a skill; `share` is filled here.
struct Transition {
  int64_t old_stage = 0, new_stage = 0;
  std::vector<SkillDrift> skills;
};
void fill_shares(Transition& transition);

// L and epsilon of every skill, over its transitions. Without `left_out` (an index) the bound holds by construction
// for the transitions that it was fitted on; a bound from the others is a prediction.
struct SkillFit {
  RiskFit fit;
  int64_t points = 0;
};
constexpr size_t kNoneLeftOut = static_cast<size_t>(-1);
std::map<int64_t, SkillFit> fit_skills(const std::vector<Transition>& transitions, size_t left_out = kNoneLeftOut);

// Both sides of the theorem. A skill without a fit makes its bound NaN.
struct ForgettingBound {
  double risk_increase = 0;  // of all shared samples: sum of omega (R_new - R_old)
  double forgetting = 0;     // its positive part, the left side
  double by_w1 = 0;          // sum of omega (L W1 + 2 epsilon)
  double by_gaussian = 0;    // sum of omega (L (Gamma_new + Delta + Gamma_old) + 2 epsilon)
};
ForgettingBound forgetting_bound(const Transition& transition, const std::map<int64_t, SkillFit>& fits);

}  // namespace asr
