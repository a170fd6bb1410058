// Forgetting of one skill, from its accuracy on all seen validation samples after every stage.
#pragma once

#include <cmath>
#include <vector>

namespace asr {

// In the unit of the accuracies; best and step are NaN before the second stage that asks for the skill.
struct SkillForgetting {
  double best = NAN;      // the best of the earlier stages less the last: negative where the last is better
  double step = NAN;      // what the last stage took away: the one before it less the last, 0 where nothing was lost
  double cumulative = 0;  // the sum of all such steps
};

// `accuracy` by stage, NaN where the skill was not yet asked for.
SkillForgetting skill_forgetting(const std::vector<double>& accuracy);

}  // namespace asr
