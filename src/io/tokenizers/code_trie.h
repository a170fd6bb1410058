// Texts by their characters in a tree, so that the longest of many that begins at a place is found in as many steps as
// it has characters, however many there are.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "io/unicode.h"

namespace asr {

class CodeTrie {
 public:
  // The first of two equal texts keeps its value.
  void add(const Characters& text, int64_t value);
  bool empty() const { return values_.size() == 1 && values_[0] < 0; }

  struct Match {
    size_t end = 0;
    int64_t value = -1;  // -1: nothing begins here
  };
  Match longest(const Characters& text, size_t begin) const;

 private:
  std::unordered_map<uint64_t, uint32_t> edges_;  // by node and code
  std::vector<int64_t> values_ = {-1};            // by node; the root is 0
};

}  // namespace asr
