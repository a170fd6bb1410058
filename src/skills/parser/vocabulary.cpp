#include "skills/parser/vocabulary.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "skills/words.h"

namespace asr {

QuestionVocabulary::QuestionVocabulary(std::vector<std::string> words, int64_t buckets)
    : words_(std::move(words)), buckets_(buckets) {
  check(buckets >= 1, "a vocabulary needs at least one bucket for unknown words");
  for (size_t i = 0; i < words_.size(); ++i)
    check(numbers_.emplace(words_[i], static_cast<int64_t>(i) + 1).second, "the vocabulary holds '",
          printable(words_[i]), "' twice");
}

QuestionVocabulary QuestionVocabulary::build(const std::vector<std::string>& questions, int64_t least, int64_t most,
                                             int64_t buckets) {
  std::map<std::string, int64_t> counts;
  for (const auto& question : questions)
    for (const auto& piece : split_text(question)) ++counts[lower_case(piece.text)];
  std::vector<std::pair<int64_t, std::string>> ranked;
  for (const auto& [word, count] : counts)
    if (count >= least) ranked.emplace_back(-count, word);
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min(ranked.size(), static_cast<size_t>(most)); ++i) words.push_back(ranked[i].second);
  return QuestionVocabulary(std::move(words), buckets);
}

int64_t QuestionVocabulary::hashed(const std::string& word) const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: the same on every platform
  for (unsigned char c : word) hash = (hash ^ c) * 0x100000001b3;
  return first_bucket() + static_cast<int64_t>((hash >> 20) % static_cast<uint64_t>(buckets_));
}

std::vector<int64_t> QuestionVocabulary::ids(const std::string& question, int64_t limit) const {
  std::vector<int64_t> out = {0};
  for (const auto& piece : split_text(question)) {
    if (static_cast<int64_t>(out.size()) > limit) break;
    const auto word = lower_case(piece.text);
    const auto found = numbers_.find(word);
    out.push_back(found == numbers_.end() ? hashed(word) : found->second);
  }
  return out;
}

}  // namespace asr
