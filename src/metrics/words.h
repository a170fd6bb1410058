// Text as the Python evaluators see it: code points instead of bytes, Unicode white space, lower case. Invalid UTF-8
// is kept byte by byte, so that no prediction, however broken, stops a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asr {

// The code point at `place`, which moves past it; a byte that is no UTF-8 counts as itself plus 0xdc00.
uint32_t next_code_point(const std::string& text, size_t& place);
void append_code_point(std::string& out, uint32_t code);

bool is_space(uint32_t code);
bool is_word(uint32_t code);  // letters, digits, underscore: what a regular expression calls \w

bool has_ending(const std::string& word, const std::string& ending);  // and something before it

std::string lower(const std::string& text);  // Latin, Greek and Cyrillic
std::string trim(const std::string& text);
std::vector<std::string> split_words(const std::string& text);
std::string replace_all(const std::string& text, const std::string& from, const std::string& to);

}  // namespace asr
