// Tokens that are cut out of the text before the model sees it: <s>, <image>, <|im_end|>. The leftmost match wins, the
// longest of those that begin together.
#pragma once

#include <vector>

#include "io/tokenizers/code_trie.h"
#include "io/tokenizers/parts.h"

namespace asr {

class AddedTokens {
 public:
  struct Part {
    size_t begin, end;                  // characters
    const AddedToken* token = nullptr;  // null: plain text
  };

  // `content`: what to look for, where normalisation has changed it.
  void add(const AddedToken& token, const Characters& content, const std::string& origin);
  std::vector<Part> split(const Characters& text) const;

 private:
  CodeTrie places_;  // of the tokens in the list
  std::vector<AddedToken> tokens_;
};

}  // namespace asr
