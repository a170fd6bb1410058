#include "metrics/skill_forgetting.h"

#include <algorithm>

namespace asr {

SkillForgetting skill_forgetting(const std::vector<double>& accuracy) {
  SkillForgetting out;
  double best = NAN, previous = NAN;
  for (const double value : accuracy) {
    if (std::isnan(value)) continue;
    if (std::isnan(previous)) {
      best = value;
    } else {
      out.best = best - value;
      out.step = std::max(0.0, previous - value);
      out.cumulative += out.step;
      best = std::max(best, value);
    }
    previous = value;
  }
  return out;
}

}  // namespace asr
