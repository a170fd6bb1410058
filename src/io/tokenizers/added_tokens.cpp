#include "io/tokenizers/added_tokens.h"

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

bool is_word_character(uint32_t c) {
  const auto k = class_of(c);
  return k == CharacterClass::Letter || k == CharacterClass::Number || k == CharacterClass::Accent ||
         k == CharacterClass::Mark || c == '_';
}

}  // namespace

void AddedTokens::add(const AddedToken& token, const Characters& content, const std::string& origin) {
  if (content.empty()) return;
  check(content.size() <= kLongestPattern, origin, ": added token '", printable(token.content), "' has ",
        content.size(), " characters; at most ", kLongestPattern, " are supported");
  places_.add(content, static_cast<int64_t>(tokens_.size()));
  tokens_.push_back(token);
}

std::vector<AddedTokens::Part> AddedTokens::split(const Characters& text) const {
  std::vector<Part> out;
  size_t done = 0;
  for (size_t i = 0; i < text.size() && !tokens_.empty();) {
    const auto match = places_.longest(text, i);
    if (match.value < 0) {
      ++i;
      continue;
    }
    size_t begin = i, end = match.end;
    i = end;
    const auto& token = tokens_[static_cast<size_t>(match.value)];
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
