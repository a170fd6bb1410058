// Text cut into words and punctuation marks with byte offsets, the one splitting that the rules for functional words
// and the skill parser share. Any bytes are accepted; what is not UTF-8 counts as punctuation.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace asr {

struct TextPiece {
  std::string text;           // as written
  size_t begin = 0, end = 0;  // bytes [begin, end) of the text
  bool word = false;          // letters and digits, with inner apostrophes and hyphens; otherwise one mark
};

std::vector<TextPiece> split_text(const std::string& text);

std::string lower_case(std::string text);  // ASCII letters; a typographic apostrophe becomes a plain one

}  // namespace asr
