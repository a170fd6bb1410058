// Words of an answer brought to their dictionary form, as NExT-QA's evaluation does with a part-of-speech tagger and
// WordNet. Here the ending and the exception lists decide the word class instead of a tagger.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "io/wordnet.h"

namespace asr {

class Lemmatizer {
 public:
  explicit Lemmatizer(const WordNet& net) : net_(net) {}
  const std::string& lemma(const std::string& word);  // of a lower-case word

 private:
  std::string find(const std::string& word) const;
  const WordNet& net_;
  std::unordered_map<std::string, std::string> known_;
};

}  // namespace asr
