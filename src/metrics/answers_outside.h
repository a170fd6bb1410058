// Is a wrong answer at least an answer of the task? A model that learnt another format answers outside the task's
// answers; one that learnt another meaning of the same words answers within them.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace asr {

// Percent of the wrong answers (scores below 0.5) that are none of `known`, which are normalized as VQA answers are.
// NaN where no answer is wrong.
double outside_share(const std::vector<std::string>& answers, const std::vector<double>& scores,
                     const std::set<std::string>& known);

}  // namespace asr
