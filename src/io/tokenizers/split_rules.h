// The word patterns of GPT-2, Qwen2, LLaMA 3 and CLIP as hand-written scanners: std::regex knows no Unicode, and these
// few patterns are all that byte-level vocabularies use. `split_rule` tells which scanner stands for a pattern.
#pragma once

#include <string>

#include "io/unicode.h"

namespace asr {

enum class WordPattern { qwen2, gpt2, clip };

struct SplitRule {
  WordPattern pattern = WordPattern::qwen2;
  size_t digits = 1;        // most digits in a word (Qwen2: 1, LLaMA 3: 3); not for GPT-2
  bool drops_gaps = false;  // CLIP alone has any: no word of it holds a space
};

// False: no scanner for this pattern.
bool split_rule(const std::string& pattern, SplitRule& rule);

// The end of the word that begins at `begin`; always beyond it.
size_t word_end(const Characters& text, size_t begin, const SplitRule& rule);

}  // namespace asr
