// Multiple choice by letter, as LLaVA and CoIN read ScienceQA outputs: the letter alone, or "B. ...", or else the first
// word of one character, upper-cased (so "a cat" answers A). No letter of A..E: wrong. References are read the same
// way.
#include <cstring>

#include "metrics/metric.h"
#include "metrics/words.h"

namespace asr {
namespace {

bool is_option(const std::string& text) {
  return text.size() == 1 && std::strchr("ABCDE", text[0]);
}

std::string first_single_character(const std::string& text) {
  std::string word;
  int length = 0;
  for (size_t place = 0; place < text.size();) {
    const uint32_t code = next_code_point(text, place);
    if (is_word(code)) {
      if (++length == 1) append_code_point(word, code);
      continue;
    }
    if (length == 1) return word;
    word.clear();
    length = 0;
  }
  return length == 1 ? word : "";
}

// One of A..E, or empty.
std::string letter_of(const std::string& text) {
  if (is_option(text)) return text;
  if (text.size() >= 3 && is_option(text.substr(0, 1)) && text.compare(1, 2, ". ") == 0) return text.substr(0, 1);
  std::string single = first_single_character(text);
  if (single.size() == 1 && single[0] >= 'a' && single[0] <= 'z') single[0] = static_cast<char>(single[0] - 'a' + 'A');
  return is_option(single) ? single : "";
}

}  // namespace

MetricResult evaluate_letter(const std::vector<Answered>& samples) {
  auto out = mean_result("accuracy", best_over_references(samples, [](const auto& text, const auto& truth) {
                           const auto said = letter_of(text);
                           return !said.empty() && said == letter_of(truth) ? 1.0 : 0.0;
                         }));
  double invalid = 0;
  for (const auto& sample : samples) invalid += letter_of(sample.text).empty();
  out.components["invalid"] = invalid / static_cast<double>(samples.size());
  return out;
}

}  // namespace asr
