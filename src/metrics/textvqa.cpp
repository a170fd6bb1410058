// TextVQA soft accuracy: the VQA formula over ten answers, but with the answer processor of the TextVQA challenge
// (EvalAI), which first drops commas and question marks and splits off 's, and normalises every text, always.
#include "metrics/metric.h"
#include "metrics/vqa_answer.h"
#include "metrics/words.h"

namespace asr {
namespace {

std::string processed(const std::string& text) {
  auto out = replace_all(replace_all(lower(text), ",", ""), "?", "");
  return normalized_answer(replace_all(out, "'s", " 's"));
}

}  // namespace

MetricResult evaluate_textvqa(const std::vector<Answered>& samples) {
  std::vector<double> out;
  for (const auto& sample : samples) {
    std::vector<std::string> answers;
    for (const auto& reference : sample.references) answers.push_back(processed(reference));
    out.push_back(annotator_agreement(processed(sample.text), answers));
  }
  return mean_result("accuracy", std::move(out));
}

}  // namespace asr
