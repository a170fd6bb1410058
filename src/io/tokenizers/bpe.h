// Byte-pair merging in O(n log n): a heap of candidate pairs over a linked list of symbols, so that a word of a million
// letters is no trap. Shared by Hugging Face's merge lists and SentencePiece's scores; both take the lowest rank first,
// the leftmost of equals.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace asr {

struct Symbol {
  int64_t id = -1;            // -1: not in the vocabulary
  size_t begin = 0, end = 0;  // in units of the caller
};

struct Merge {
  int64_t rank = -1;  // -1: these two do not merge
  int64_t id = -1;
};
using FindMerge = std::function<Merge(const Symbol& left, const Symbol& right)>;

std::vector<Symbol> merge_pairs(const std::vector<Symbol>& symbols, const FindMerge& find);

}  // namespace asr
