// One-to-one alignment of two sentences for METEOR: as many matched words as possible, then as few chunks (runs that
// are contiguous in both), then as little moving about. Found by a beam over the words of the first sentence.
#pragma once

#include <cstddef>
#include <vector>

namespace asr {

struct Alignment {
  std::vector<int> partner;  // per word of the first sentence: place in the second, or -1
  int matches = 0, chunks = 0;
};

// `candidates[i]` lists, ascending, the places in the second sentence (of `width` words) that word i may be matched
// with.
Alignment align(const std::vector<std::vector<int>>& candidates, size_t width);

}  // namespace asr
