// Captions as the COCO caption evaluation sees them: Penn-Treebank-like tokens in lower case, without punctuation.
// Words become numbers, the same over a whole evaluation, so that counting n-grams costs no string comparison.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "metrics/metric.h"

namespace asr {

std::vector<std::string> caption_tokens(const std::string& text);

using WordIds = std::vector<uint32_t>;

struct CaptionSample {
  WordIds prediction;
  std::vector<WordIds> references;
};

struct Captions {
  explicit Captions(const std::vector<Answered>& samples);
  std::vector<std::string> words;  // by number; number 0 is no word
  std::vector<CaptionSample> samples;

 private:
  WordIds ids_of(const std::string& text);
  std::unordered_map<std::string, uint32_t> ids_;
};

// An n-gram of up to four words; unused places are 0.
using Ngram = std::array<uint32_t, 4>;
struct NgramHash {
  size_t operator()(const Ngram& ngram) const;
};
using NgramCounts = std::unordered_map<Ngram, int, NgramHash>;

inline constexpr int kLongestNgram = 4;
NgramCounts count_ngrams(const WordIds& words);
inline int length_of(const Ngram& ngram) {
  return 1 + (ngram[1] != 0) + (ngram[2] != 0) + (ngram[3] != 0);
}

}  // namespace asr
