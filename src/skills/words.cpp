#include "skills/words.h"

#include <cstdint>

namespace asr {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t size = 1;
  bool valid = false;
};

CodePoint decode(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  if (first < 0x80) return {first, 1, true};
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + size > text.size()) return {first, 1, false};
  uint32_t value = first & (0x7f >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {first, 1, false};
    value = value << 6 | (byte(at + i) & 0x3f);
  }
  return {value, size, true};
}

bool in_range(uint32_t value, uint32_t low, uint32_t high) {
  return value >= low && value <= high;
}

bool is_space(const CodePoint& c) {
  return c.valid && (c.value <= ' ' || c.value == 0xa0 || in_range(c.value, 0x2000, 0x200f) || c.value == 0x3000);
}

bool is_letter(const CodePoint& c) {
  if (!c.valid) return false;
  if (c.value < 0x80) return in_range(c.value, '0', '9') || in_range(c.value, 'A', 'Z') || in_range(c.value, 'a', 'z');
  // Latin-1 signs, general punctuation, arrows and symbols, CJK and full-width punctuation are no letters.
  return !in_range(c.value, 0x80, 0xbf) && c.value != 0xd7 && c.value != 0xf7 && !in_range(c.value, 0x2000, 0x206f) &&
         !in_range(c.value, 0x2190, 0x2bff) && !in_range(c.value, 0x3000, 0x303f) &&
         !in_range(c.value, 0xff00, 0xff0f) && !in_range(c.value, 0xff1a, 0xff20) && !in_range(c.value, 0xfe30, 0xfe4f);
}

// Inside a word: don't, wood-paneling, 3.5.
bool joins(const CodePoint& c) {
  return c.valid && (c.value == '\'' || c.value == 0x2019 || c.value == '-');
}

bool is_digit(const CodePoint& c) {
  return c.valid && in_range(c.value, '0', '9');
}

size_t word_end(const std::string& text, size_t begin) {
  size_t at = begin;
  CodePoint previous;
  while (at < text.size()) {
    const auto c = decode(text, at);
    if (!is_letter(c)) {
      if (at + c.size >= text.size()) break;
      const auto next = decode(text, at + c.size);
      const bool decimal = c.valid && c.value == '.' && is_digit(previous) && is_digit(next);
      if (!decimal && !(joins(c) && is_letter(next))) break;
    }
    at += c.size;
    previous = c;
  }
  return at;
}

}  // namespace

std::vector<TextPiece> split_text(const std::string& text) {
  std::vector<TextPiece> out;
  for (size_t at = 0; at < text.size();) {
    const auto c = decode(text, at);
    size_t end = at + c.size;
    if (!is_space(c)) {
      const bool word = is_letter(c);
      if (word) end = word_end(text, at);
      out.push_back({text.substr(at, end - at), at, end, word});
    }
    at = end;
  }
  return out;
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (size_t at = text.find("\xe2\x80\x99"); at != std::string::npos; at = text.find("\xe2\x80\x99"))
    text.replace(at, 3, "'");
  return text;
}

}  // namespace asr
