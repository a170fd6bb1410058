#include "metrics/words.h"

namespace asr {
namespace {

constexpr uint32_t kBroken = 0xdc00;  // a low surrogate: never the value of valid UTF-8

uint32_t lower_code(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c >= 0xc0 && c <= 0xde && c != 0xd7) return c + 32;
  if ((c >= 0x100 && c <= 0x12f) || (c >= 0x132 && c <= 0x137) || (c >= 0x14a && c <= 0x177)) return c | 1;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c + (c & 1);
  if (c == 0x178) return 0xff;
  if (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) return c + 32;
  if (c >= 0x400 && c <= 0x40f) return c + 80;
  if (c >= 0x410 && c <= 0x42f) return c + 32;
  return c;
}

// Length of the sequence that starts with this byte; 0 when none does.
int sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

}  // namespace

uint32_t next_code_point(const std::string& text, size_t& place) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(place);
  const int length = sequence_length(first);
  if (length == 1) return byte(place++);
  if (length == 0 || place + static_cast<size_t>(length) > text.size()) return kBroken + byte(place++);
  uint32_t code = first & (0x7fu >> length);
  for (int i = 1; i < length; ++i) {
    const unsigned char next = byte(place + static_cast<size_t>(i));
    if ((next & 0xc0) != 0x80) return kBroken + byte(place++);
    code = code << 6 | (next & 0x3f);
  }
  const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return kBroken + byte(place++);
  place += static_cast<size_t>(length);
  return code;
}

void append_code_point(std::string& out, uint32_t code) {
  const auto add = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code >= kBroken && code < kBroken + 0x100) return add(code - kBroken);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
    return add(0x80 | (code & 0x3f));
  }
  if (code < 0x10000) {
    add(0xe0 | code >> 12);
  } else {
    add(0xf0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3f));
    code &= 0xfff;
    add(0x80 | code >> 6);
    return add(0x80 | (code & 0x3f));
  }
  add(0x80 | (code >> 6 & 0x3f));
  add(0x80 | (code & 0x3f));
}

bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_word(uint32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  if (c < 0xc0) return c == 0xaa || c == 0xb2 || c == 0xb3 || c == 0xb5 || (c >= 0xb9 && c <= 0xbe && c != 0xbb);
  if (c == 0xd7 || c == 0xf7) return false;
  const bool punctuation = (c >= 0x2000 && c <= 0x206f) || (c >= 0x2190 && c <= 0x2bff) ||
                           (c >= 0x3000 && c <= 0x3004) || (c >= 0x3008 && c <= 0x3020) ||
                           (c >= 0xff01 && c <= 0xff0f) || (c >= 0xff1a && c <= 0xff20);
  return !punctuation && !(c >= kBroken && c < kBroken + 0x100);
}

bool has_ending(const std::string& word, const std::string& ending) {
  return word.size() > ending.size() && word.compare(word.size() - ending.size(), ending.size(), ending) == 0;
}

std::string lower(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) append_code_point(out, lower_code(next_code_point(text, place)));
  return out;
}

std::string trim(const std::string& text) {
  size_t begin = text.size(), end = 0;
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    if (is_space(next_code_point(text, place))) continue;
    if (begin == text.size()) begin = start;
    end = place;
  }
  return begin < end ? text.substr(begin, end - begin) : "";
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> out;
  bool inside = false;
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    if (is_space(next_code_point(text, place))) {
      inside = false;
      continue;
    }
    if (!inside) out.emplace_back();
    inside = true;
    out.back().append(text, start, place - start);
  }
  return out;
}

std::string replace_all(const std::string& text, const std::string& from, const std::string& to) {
  std::string out;
  size_t begin = 0;
  for (size_t hit; (hit = text.find(from, begin)) != std::string::npos; begin = hit + from.size())
    out.append(text, begin, hit - begin) += to;
  return out.append(text, begin, std::string::npos);
}

}  // namespace asr
