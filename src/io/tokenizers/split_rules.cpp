#include "io/tokenizers/split_rules.h"

#include <algorithm>

namespace asr {
namespace {

// 's 't 'm 'd 're 've 'll
size_t contraction_end(const Characters& text, size_t i, bool any_case) {
  if (text[i].code != '\'') return i;
  const auto at = [&](size_t k) -> uint32_t {
    if (k >= text.size()) return 0;
    const uint32_t c = text[k].code;
    if (any_case && c == 0x17F) return 's';  // the long s is an s to a pattern that ignores case
    return any_case && c >= 'A' && c <= 'Z' ? c + 32 : c;
  };
  const uint32_t a = at(i + 1), b = at(i + 2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? i + 3 : i;
}

bool is_break(uint32_t c) {
  return c == '\r' || c == '\n';
}
bool is_mark(uint32_t c) {  // neither letter, digit nor space
  const auto k = class_of(c);
  return k != CharacterClass::Letter && k != CharacterClass::Number && k != CharacterClass::Space;
}

template <class Test>
size_t run_end(const Characters& text, size_t i, const Test& test, size_t most = SIZE_MAX) {
  size_t count = 0;
  while (i < text.size() && count < most && test(text[i].code)) {
    ++i;
    ++count;
  }
  return i;
}

// \s+(?!\S)|\s+ : spaces before a word leave the last one to it.
size_t spaces_end(const Characters& text, size_t i) {
  const size_t end = run_end(text, i, is_space);
  return end < text.size() && end - i > 1 ? end - 1 : end;
}

//  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2_end(const Characters& text, size_t i) {
  const size_t contraction = contraction_end(text, i, false);
  if (contraction > i) return contraction;
  const size_t start = text[i].code == ' ' && i + 1 < text.size() ? i + 1 : i;
  if (is_letter(text[start].code)) return run_end(text, start, is_letter);
  if (is_number(text[start].code)) return run_end(text, start, is_number);
  if (is_mark(text[start].code)) return run_end(text, start, is_mark);
  return spaces_end(text, i);
}

//  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t qwen_end(const Characters& text, size_t i, size_t digits) {
  const size_t contraction = contraction_end(text, i, true);
  if (contraction > i) return contraction;
  const uint32_t c = text[i].code;
  if (is_letter(c)) return run_end(text, i, is_letter);
  if (is_number(c)) return run_end(text, i, is_number, digits);
  if (!is_break(c) && i + 1 < text.size() && is_letter(text[i + 1].code)) return run_end(text, i + 1, is_letter);
  const size_t start = c == ' ' && i + 1 < text.size() ? i + 1 : i;
  if (is_mark(text[start].code)) return run_end(text, run_end(text, start, is_mark), is_break);
  const size_t end = run_end(text, i, is_space);
  for (size_t k = end; k > i; --k)  // as many spaces as end in a line break
    if (is_break(text[k - 1].code)) return k;
  return spaces_end(text, i);
}

//  's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+ , and the gaps between such words
size_t clip_end(const Characters& text, size_t i) {
  const size_t contraction = contraction_end(text, i, false);
  if (contraction > i) return contraction;
  if (is_letter(text[i].code)) return run_end(text, i, is_letter);
  if (is_number(text[i].code)) return i + 1;
  return is_space(text[i].code) ? run_end(text, i, is_space) : run_end(text, i, is_mark);
}

}  // namespace

bool split_rule(const std::string& pattern, SplitRule& rule) {
  static const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  static const std::string head = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  static const std::string tail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  static const std::string clip = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
  // Both are added tokens wherever this pattern stands, so that no text holds them any more.
  static const std::string clip_specials = R"(<\|startoftext\|>|<\|endoftext\|>|)";
  if (pattern == gpt2)
    rule = {WordPattern::gpt2, 0};
  else if (pattern == head + R"(\p{N})" + tail)
    rule = {WordPattern::qwen2, 1};
  else if (pattern == head + R"(\p{N}{1,3})" + tail)
    rule = {WordPattern::qwen2, 3};
  else if (pattern == clip || pattern == clip_specials + clip)
    rule = {WordPattern::clip, 1};
  else
    return false;
  return true;
}

size_t word_end(const Characters& text, size_t begin, const SplitRule& rule) {
  if (rule.pattern == WordPattern::clip) return clip_end(text, begin);
  const bool gpt2 = rule.pattern == WordPattern::gpt2;
  return std::max(begin + 1, gpt2 ? gpt2_end(text, begin) : qwen_end(text, begin, rule.digits));
}

}  // namespace asr
