// The word patterns of GPT-2, Qwen2 and LLaMA 3 as hand-written scanners: std::regex knows no Unicode, and these few
// patterns are all that byte-level vocabularies use. `split_rule` tells which scanner stands for a pattern.
#pragma once

#include <string>

#include "io/unicode.h"

namespace asr {

struct SplitRule {
  bool gpt2 = false;
  size_t digits = 1;  // most digits in a word (Qwen2: 1, LLaMA 3: 3); not for GPT-2
};

// False: no scanner for this pattern.
bool split_rule(const std::string& pattern, SplitRule& rule);

// The end of the word that begins at `begin`; always beyond it.
size_t word_end(const Characters& text, size_t begin, const SplitRule& rule);

}  // namespace asr
