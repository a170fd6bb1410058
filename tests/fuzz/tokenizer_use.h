// What every fuzzed tokenizer must do with any text: tokens inside it, of known ids, that decode.
#pragma once

#include <cstdlib>

#include "base/error.h"
#include "io/tokenizer.h"

// `load` makes the tokenizer; an Error from it or from the text is an answer too.
template <class Load>
void use_tokenizer(Load load, const std::string& text) {
  try {
    const auto tokenizer = load();
    std::vector<int64_t> ids;
    for (const auto& token : tokenizer->encode(text)) {
      if (token.begin > token.end || token.end > text.size() || token.id >= tokenizer->size()) std::abort();
      ids.push_back(token.id);
    }
    tokenizer->decode(ids);
  } catch (const asr::Error&) {
  }
}
