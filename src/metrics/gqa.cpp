// GQA as LLaVA and CoIN score it: final periods and one leading space of the output go, case does not matter, the rest
// must equal the answer.
#include "metrics/metric.h"
#include "metrics/words.h"

namespace asr {

MetricResult evaluate_gqa(const std::vector<Answered>& samples) {
  return mean_result("accuracy", best_over_references(samples, [](std::string text, const std::string& truth) {
                       while (!text.empty() && text.back() == '.') text.pop_back();
                       if (!text.empty() && text.front() == ' ') text.erase(0, 1);
                       return lower(text) == lower(truth) ? 1.0 : 0.0;
                     }));
}

}  // namespace asr
