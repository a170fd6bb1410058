#include "metrics/lemmas.h"

#include <algorithm>

#include "metrics/porter.h"
#include "metrics/words.h"

namespace asr {
namespace {

// The shortest of several forms, the first of equals.
std::string shortest(const std::vector<std::string>& forms) {
  const auto less = [](const std::string& a, const std::string& b) { return a.size() < b.size(); };
  return forms.empty() ? "" : *std::min_element(forms.begin(), forms.end(), less);
}

}  // namespace

const std::string& Lemmatizer::lemma(const std::string& word) {
  const auto found = known_.find(word);
  return found != known_.end() ? found->second : known_[word] = find(word);
}

std::string Lemmatizer::find(const std::string& word) const {
  const auto verb = shortest(net_.base_forms(word, WordClass::verb));
  const auto noun = shortest(net_.base_forms(word, WordClass::noun));
  // A third person such as "walks" reads as a plural, with the same result; "was" and "has" are no plurals.
  const bool inflected = !verb.empty() && verb != word;
  const bool like_plural = has_ending(word, "s") && word.compare(0, verb.size(), verb) == 0;
  std::string lemma = word;
  if (inflected && !like_plural)
    lemma = verb;
  else if (!noun.empty())
    lemma = noun;
  else if (!verb.empty())
    lemma = verb;
  if (!net_.all_senses(lemma).empty()) return lemma;
  const auto stem = porter_stem(word);
  return net_.all_senses(stem).empty() ? word : stem;
}

}  // namespace asr
