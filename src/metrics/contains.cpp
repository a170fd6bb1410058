// CoIN's ImageNet rule: right if the reference lies inside the output or the output inside the reference, case kept.
// CoIN lets an empty output pass (`contains_coin`); `contains` wants some text; `contains_strict` wants the whole
// reference in the output, so that a stray letter does not pass either.
#include "metrics/metric.h"
#include "metrics/words.h"

namespace asr {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

double strict(const std::string& text, const std::string& truth) {
  return !trim(text).empty() && holds(text, truth) ? 1.0 : 0.0;
}

}  // namespace

MetricResult evaluate_contains(const std::vector<Answered>& samples) {
  auto out = mean_result("accuracy", best_over_references(samples, [](const auto& text, const auto& truth) {
                           const auto said = trim(text);
                           return !said.empty() && (holds(said, truth) || holds(truth, said)) ? 1.0 : 0.0;
                         }));
  out.components["accuracy_strict"] = mean_result("", best_over_references(samples, strict)).score / 100;
  return out;
}

MetricResult evaluate_contains_coin(const std::vector<Answered>& samples) {
  return mean_result("accuracy", best_over_references(samples, [](const auto& text, const auto& truth) {
                       return holds(text, truth) || holds(truth, text) ? 1.0 : 0.0;
                     }));
}

MetricResult evaluate_contains_strict(const std::vector<Answered>& samples) {
  return mean_result("accuracy", best_over_references(samples, strict));
}

}  // namespace asr
