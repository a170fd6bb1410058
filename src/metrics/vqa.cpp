// VQA accuracy over (usually ten) annotators. `vqa` is the official evaluation: texts are normalised only where the
// annotators disagree. `vqa_vqacl` is what VQACL and CLT-VQA compute: the prediction is always normalised, the answers
// lose only their punctuation, so an answer such as "two" or "the dog" can never be matched.
#include <algorithm>

#include "metrics/metric.h"
#include "metrics/vqa_answer.h"

namespace asr {
namespace {

bool all_equal(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(), [&](const std::string& text) { return text == texts[0]; });
}

template <class Function>
std::vector<std::string> each(std::vector<std::string> texts, const Function& function) {
  for (auto& text : texts) text = function(text);
  return texts;
}

double official(const Answered& sample) {
  const auto answers = each(sample.references, strip_answer);
  if (answers.size() > 1 && all_equal(answers)) return annotator_agreement(strip_answer(sample.text), answers);
  return annotator_agreement(normalized_answer(sample.text), each(answers, normalized_answer));
}

double vqacl(const Answered& sample) {
  const bool same = all_equal(sample.references);
  return annotator_agreement(normalized_answer(sample.text),
                             same ? sample.references : each(sample.references, without_punctuation));
}

MetricResult mean_of(const std::vector<Answered>& samples, double (*value)(const Answered&)) {
  std::vector<double> out;
  for (const auto& sample : samples) out.push_back(value(sample));
  return mean_result("accuracy", std::move(out));
}

}  // namespace

MetricResult evaluate_vqa(const std::vector<Answered>& samples) {
  return mean_of(samples, official);
}

MetricResult evaluate_vqa_vqacl(const std::vector<Answered>& samples) {
  return mean_of(samples, vqacl);
}

}  // namespace asr
