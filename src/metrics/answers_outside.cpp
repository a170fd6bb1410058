#include "metrics/answers_outside.h"

#include <cmath>

#include "base/error.h"
#include "metrics/vqa_answer.h"

namespace asr {

double outside_share(const std::vector<std::string>& answers, const std::vector<double>& scores,
                     const std::set<std::string>& known) {
  check(answers.size() == scores.size(), answers.size(), " answers but ", scores.size(), " scores");
  int64_t wrong = 0, outside = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (scores[i] >= 0.5) continue;
    ++wrong;
    outside += known.count(normalized_answer(answers[i])) == 0;
  }
  return wrong > 0 ? 100.0 * static_cast<double>(outside) / static_cast<double>(wrong) : NAN;
}

}  // namespace asr
