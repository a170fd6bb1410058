// Words and punctuation marks as numbers. Words that training never saw share a few buckets by their hash, so that a
// strange word still is some word.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace asr {

class QuestionVocabulary {
 public:
  QuestionVocabulary() = default;
  QuestionVocabulary(std::vector<std::string> words, int64_t buckets);

  // The lower-cased words that occur at least `least` times, the most frequent first, at most `most` of them.
  static QuestionVocabulary build(const std::vector<std::string>& questions, int64_t least, int64_t most,
                                  int64_t buckets);

  // 0 opens every question; then at most `limit` of its words.
  std::vector<int64_t> ids(const std::string& question, int64_t limit) const;

  int64_t size() const { return first_bucket() + buckets_; }
  int64_t first_bucket() const { return 1 + static_cast<int64_t>(words_.size()); }
  const std::vector<std::string>& words() const { return words_; }

 private:
  int64_t hashed(const std::string& word) const;

  std::vector<std::string> words_;  // word i has number i + 1
  std::unordered_map<std::string, int64_t> numbers_;
  int64_t buckets_ = 1;
};

}  // namespace asr
