#include "io/tokenizers/added_tokens.h"

#include <algorithm>

namespace asr {
namespace {

bool is_word_character(uint32_t c) {
  const auto k = class_of(c);
  return k == CharacterClass::Letter || k == CharacterClass::Number || k == CharacterClass::Accent ||
         k == CharacterClass::Mark || c == '_';
}

}  // namespace

void AddedTokens::add(const AddedToken& token, const Characters& content) {
  if (content.empty()) return;
  Pattern pattern{{}, token};
  for (const auto& c : content) pattern.codes.push_back(c.code);
  auto& list = by_first_[content.front().code];
  const auto at =
      std::find_if(list.begin(), list.end(), [&](const Pattern& p) { return p.codes.size() < pattern.codes.size(); });
  list.insert(at, std::move(pattern));
}

const AddedTokens::Pattern* AddedTokens::match(const Characters& text, size_t at) const {
  const auto list = by_first_.find(text[at].code);
  if (list == by_first_.end()) return nullptr;
  for (const auto& pattern : list->second) {
    size_t k = 0;
    while (k < pattern.codes.size() && at + k < text.size() && text[at + k].code == pattern.codes[k]) ++k;
    if (k == pattern.codes.size()) return &pattern;
  }
  return nullptr;
}

std::vector<AddedTokens::Part> AddedTokens::split(const Characters& text) const {
  std::vector<Part> out;
  size_t done = 0;
  for (size_t i = 0; i < text.size() && !by_first_.empty();) {
    const auto* pattern = match(text, i);
    if (!pattern) {
      ++i;
      continue;
    }
    size_t begin = i, end = i + pattern->codes.size();
    i = end;
    const auto& token = pattern->token;
    const bool touched = (begin > 0 && is_word_character(text[begin - 1].code)) ||
                         (end < text.size() && is_word_character(text[end].code));
    if (token.single_word && touched) continue;
    while (token.lstrip && begin > done && is_space(text[begin - 1].code)) --begin;
    while (token.rstrip && end < text.size() && is_space(text[end].code)) ++end;
    if (begin > done) out.push_back({done, begin, nullptr});
    out.push_back({begin, end, &token});
    done = i = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), nullptr});
  return out;
}

}  // namespace asr
