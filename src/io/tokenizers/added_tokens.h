// Tokens that are cut out of the text before the model sees it: <s>, <image>, <|im_end|>. The leftmost match wins, the
// longest of those that begin together.
#pragma once

#include <unordered_map>
#include <vector>

#include "io/tokenizers/parts.h"

namespace asr {

class AddedTokens {
 public:
  struct Part {
    size_t begin, end;                  // characters
    const AddedToken* token = nullptr;  // null: plain text
  };

  // `content`: what to look for, where normalisation has changed it.
  void add(const AddedToken& token, const Characters& content);
  std::vector<Part> split(const Characters& text) const;

 private:
  struct Pattern {
    std::vector<uint32_t> codes;
    AddedToken token;
  };
  const Pattern* match(const Characters& text, size_t at) const;
  std::unordered_map<uint32_t, std::vector<Pattern>> by_first_;  // each list longest first
};

}  // namespace asr
