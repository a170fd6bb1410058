#include "metrics/caption_tokens.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "metrics/words.h"

namespace asr {
namespace {

using Tokens = std::vector<std::string>;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
}
// Quotation marks and dashes of typography as the treebank writes them.
std::string plain_marks(const std::string& text) {
  std::string out;
  for (size_t place = 0; place < text.size();) {
    const uint32_t code = next_code_point(text, place);
    if (code == 0x2018 || code == 0x2019)
      out += '\'';
    else if (code == 0x201c || code == 0x201d)
      out += '"';
    else if (code == 0x2013 || code == 0x2014)
      out += " -- ";
    else if (code == 0x2026)
      out += " ... ";
    else
      append_code_point(out, is_space(code) ? ' ' : code);
  }
  return out;
}

bool is_abbreviation(const std::string& word) {
  static const char* const known[] = {"mr", "mrs", "ms",   "dr",  "st", "jr", "sr",
                                      "vs", "etc", "prof", "inc", "co", "ltd"};
  return std::any_of(std::begin(known), std::end(known), [&](const char* name) { return word == name; });
}

// "u.s": single letters with periods between them, to which a final period belongs.
bool is_initials(const std::string& word) {
  for (size_t i = 0; i < word.size(); ++i)
    if (i % 2 == 0 ? !is_letter(word[i]) : word[i] != '.') return false;
  return word.size() >= 3 && word.size() % 2 == 1;
}

// A word goes on over marks that stand between its letters or digits.
bool joins(const std::string& s, size_t i) {
  if (i == 0 || i + 1 >= s.size()) return false;
  const char before = s[i - 1], after = s[i + 1];
  const auto inner = [](char c) { return is_letter(c) || is_digit(c); };
  if (!inner(before) || !inner(after)) return false;
  if (std::strchr("-_/&@'", s[i])) return true;
  if (s[i] == '.') return true;
  return std::strchr(",:", s[i]) && is_digit(before) && is_digit(after);
}

// Contractions fall in two, as in the treebank: do n't, man 's, can not, gon na.
void add_word(Tokens& out, const std::string& word) {
  static const char* const fused[][2] = {{"can", "not"}, {"gon", "na"}, {"got", "ta"},
                                         {"wan", "na"},  {"gim", "me"}, {"lem", "me"}};
  for (const auto& pair : fused) {
    if (word == std::string(pair[0]) + pair[1]) {
      out.push_back(pair[0]);
      return out.push_back(pair[1]);
    }
  }
  for (const char* ending : {"n't", "'s", "'m", "'d", "'ll", "'re", "'ve"})
    if (has_ending(word, ending)) {
      out.push_back(word.substr(0, word.size() - std::strlen(ending)));
      return out.push_back(ending);
    }
  out.push_back(word);
}

size_t end_of_word(const std::string& s, size_t i) {
  while (i < s.size() && (is_letter(s[i]) || is_digit(s[i]) || joins(s, i))) ++i;
  return i;
}

// Marks the evaluation drops are left out here already; brackets stay, under their lower-case treebank names, because
// its list of punctuation knows only the upper-case ones. "!!" is one token and stays for the like reason.
size_t add_mark(Tokens& out, const std::string& s, size_t i) {
  size_t end = i + 1;
  switch (s[i]) {
    case '(':
      out.push_back("-lrb-");
      break;
    case ')':
      out.push_back("-rrb-");
      break;
    case '[':
      out.push_back("-lsb-");
      break;
    case ']':
      out.push_back("-rsb-");
      break;
    case '{':
      out.push_back("-lcb-");
      break;
    case '}':
      out.push_back("-rcb-");
      break;
    case '?':
    case '!':
      while (end < s.size() && (s[end] == '?' || s[end] == '!')) ++end;
      if (end > i + 1) out.push_back(s.substr(i, end - i));
      break;
    case ' ':
    case '.':
    case ',':
    case ':':
    case ';':
    case '-':
    case '\'':
    case '`':
    case '"':
      break;
    default:
      out.push_back(s.substr(i, 1));
  }
  return end;
}

}  // namespace

std::vector<std::string> caption_tokens(const std::string& text) {
  const std::string s = lower(plain_marks(text));
  Tokens out;
  for (size_t i = 0; i < s.size();) {
    if (!is_letter(s[i]) && !is_digit(s[i])) {
      i = add_mark(out, s, i);
      continue;
    }
    size_t end = end_of_word(s, i);
    std::string word = s.substr(i, end - i);
    if (end < s.size() && s[end] == '.' && (is_abbreviation(word) || is_initials(word))) {
      word += '.';
      ++end;
    }
    add_word(out, word);
    i = end;
  }
  return out;
}

WordIds Captions::ids_of(const std::string& text) {
  WordIds out;
  for (auto& token : caption_tokens(text)) {
    const auto [place, added] = ids_.emplace(token, static_cast<uint32_t>(words.size()));
    if (added) words.push_back(token);
    out.push_back(place->second);
  }
  return out;
}

Captions::Captions(const std::vector<Answered>& answered) : words(1) {
  for (const auto& sample : answered) {
    samples.push_back({ids_of(sample.text), {}});
    for (const auto& reference : sample.references) samples.back().references.push_back(ids_of(reference));
  }
}

size_t NgramHash::operator()(const Ngram& ngram) const {
  uint64_t state = 0;
  for (uint32_t word : ngram) {
    state = (state ^ word) * 0x9e3779b97f4a7c15;
    state ^= state >> 29;
  }
  return static_cast<size_t>(state);
}

NgramCounts count_ngrams(const WordIds& words) {
  NgramCounts out;
  for (size_t i = 0; i < words.size(); ++i) {
    Ngram ngram{};
    for (size_t k = 0; k < kLongestNgram && i + k < words.size(); ++k) {
      ngram[k] = words[i + k];
      ++out[ngram];
    }
  }
  return out;
}

}  // namespace asr
