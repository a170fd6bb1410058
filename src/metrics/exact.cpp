// Exact match without regard to case, as CoIN scores VizWiz and VQAv2 and UCIT its four question tasks.
// `exact` forgives white space at the ends (tokenizers leave some); `exact_coin` does not; `exact_ocrvqa` also counts
// every output with the word "Unanswerable" as wrong, as CoIN's OCR-VQA does.
#include "metrics/metric.h"
#include "metrics/words.h"

namespace asr {

MetricResult evaluate_exact(const std::vector<Answered>& samples) {
  return mean_result("accuracy", best_over_references(samples, [](const std::string& text, const std::string& truth) {
                       return lower(trim(text)) == lower(trim(truth)) ? 1.0 : 0.0;
                     }));
}

MetricResult evaluate_exact_coin(const std::vector<Answered>& samples) {
  return mean_result("accuracy", best_over_references(samples, [](const std::string& text, const std::string& truth) {
                       return lower(text) == lower(truth) ? 1.0 : 0.0;
                     }));
}

MetricResult evaluate_exact_ocrvqa(const std::vector<Answered>& samples) {
  return mean_result("accuracy", best_over_references(samples, [](const std::string& text, const std::string& truth) {
                       if (text.find("Unanswerable") != std::string::npos) return 0.0;
                       return lower(text) == lower(truth) ? 1.0 : 0.0;
                     }));
}

}  // namespace asr
