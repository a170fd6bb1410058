// Text as code points that remember which bytes they came from, and the Unicode properties that tokenizers need:
// classes, canonical (de)composition, lower case. Bytes that are not UTF-8 become U+FFFD, one for every maximal wrong
// part, as Python's and Rust's lossy decoders do, so that no text is ever refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asr {

struct Character {
  uint32_t code = 0;
  size_t begin = 0, end = 0;  // bytes of the original text; an inserted character has begin == end
};
using Characters = std::vector<Character>;

constexpr uint32_t kReplacement = 0xFFFD;

Characters decode_utf8(const std::string& text);
void append_utf8(std::string& out, uint32_t code);
std::string encode_utf8(const Characters& text, size_t begin, size_t end);
std::string encode_utf8(const Characters& text);
// The same bytes where they are UTF-8, U+FFFD elsewhere.
std::string valid_utf8(const std::string& bytes);
bool is_utf8(const std::string& bytes);

enum class CharacterClass : uint8_t {
  Other,        // symbols and codes that are not assigned
  Letter,       // L
  Number,       // N
  Accent,       // Mn: marks without width
  Mark,         // Mc, Me
  Punctuation,  // P
  Control,      // Cc, Cf, Co, but for those that are spaces
  Space         // the property White_Space
};
CharacterClass class_of(uint32_t code);
inline bool is_letter(uint32_t code) {
  return class_of(code) == CharacterClass::Letter;
}
inline bool is_number(uint32_t code) {
  return class_of(code) == CharacterClass::Number;
}
inline bool is_space(uint32_t code) {
  return class_of(code) == CharacterClass::Space;
}

Characters nfd(const Characters& text);
Characters nfc(const Characters& text);
Characters lower_case(const Characters& text);

}  // namespace asr
