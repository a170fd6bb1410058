#include "metrics/porter.h"

#include <cstring>

namespace asr {
namespace {

// The word as it shrinks. Conditions speak about the stem: what is left of the word before the suffix at hand.
class Stem {
 public:
  explicit Stem(const std::string& word) : word_(word) {}

  // Replaces the first of the suffixes that the word ends in, if its stem has a measure above `above`. True if some
  // suffix was found, replaced or not: the search of a step ends at the first that fits.
  struct Change {
    const char *suffix, *replacement;
  };
  template <size_t N>
  bool change(const Change (&changes)[N], int above) {
    for (const auto& [suffix, replacement] : changes)
      if (ends(suffix)) {
        if (measure() > above) replace(replacement);
        return true;
      }
    return false;
  }

  bool ends(const char* suffix) {
    const size_t length = std::strlen(suffix);
    if (length > word_.size() || word_.compare(word_.size() - length, length, suffix) != 0) return false;
    stem_ = word_.size() - length;
    return true;
  }
  void replace(const char* replacement) { word_.replace(stem_, std::string::npos, replacement); }

  // Number of times a vowel run is followed by a consonant run in the stem.
  int measure() const {
    int count = 0;
    for (size_t i = 1; i < stem_; ++i) count += consonant(i) && !consonant(i - 1);
    return count;
  }
  bool has_vowel() const {
    for (size_t i = 0; i < stem_; ++i)
      if (!consonant(i)) return true;
    return false;
  }
  bool doubled() const {
    const size_t n = word_.size();
    return n >= 2 && word_[n - 1] == word_[n - 2] && consonant(n - 1);
  }
  // Consonant, vowel, consonant at the end of the first `n` letters, the last not w, x or y: "hop", not "snow".
  bool short_syllable(size_t n) const {
    if (n < 3 || !consonant(n - 1) || consonant(n - 2) || !consonant(n - 3)) return false;
    return !std::strchr("wxy", word_[n - 1]);
  }

  const std::string& word() const { return word_; }
  char last() const { return word_.back(); }
  char before_suffix() const { return stem_ ? word_[stem_ - 1] : '\0'; }
  size_t stem_size() const { return stem_; }
  void drop_last() { word_.pop_back(); }
  void set_last(char c) { word_.back() = c; }
  void append(char c) { word_ += c; }
  void whole() { stem_ = word_.size(); }

 private:
  // y is a consonant at the start and after a vowel; a run of y's alternates, hence the count instead of recursion.
  bool consonant(size_t i) const {
    size_t run = 0;
    while (run < i && word_[i - run] == 'y') ++run;
    if (word_[i - run] == 'y') return run % 2 == 0;
    const bool plain = !std::strchr("aeiou", word_[i - run]);
    return run == 0 || run % 2 == 0 ? plain : !plain;
  }

  std::string word_;
  size_t stem_ = 0;
};

void plurals(Stem& s) {
  if (s.ends("sses") || s.ends("ies")) {
    s.drop_last();
    s.drop_last();
  } else if (!s.ends("ss") && s.ends("s")) {
    s.drop_last();
  }
}

void past_and_progressive(Stem& s) {
  if (s.ends("eed")) {
    if (s.measure() > 0) s.drop_last();
    return;
  }
  if (!((s.ends("ed") || s.ends("ing")) && s.has_vowel())) return;
  s.replace("");
  if (s.ends("at") || s.ends("bl") || s.ends("iz")) return s.append('e');
  if (s.doubled() && !std::strchr("lsz", s.last())) return s.drop_last();
  s.whole();
  if (s.measure() == 1 && s.short_syllable(s.word().size())) s.append('e');
}

void long_suffixes(Stem& s) {
  static const Stem::Change first[] = {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
                                       {"izer", "ize"},    {"abli", "able"},   {"alli", "al"},     {"entli", "ent"},
                                       {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
                                       {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"},
                                       {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"}};
  static const Stem::Change second[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                                        {"ical", "ic"},  {"ful", ""},   {"ness", ""}};
  s.change(first, 0);
  s.change(second, 0);
}

void last_suffix(Stem& s) {
  static const char* const suffixes[] = {"al",  "ance", "ence", "er",  "ic",  "able", "ible", "ant", "ement", "ment",
                                         "ent", "ion",  "ou",   "ism", "ate", "iti",  "ous",  "ive", "ize"};
  for (const char* suffix : suffixes) {
    if (!s.ends(suffix)) continue;
    const bool allowed = std::strcmp(suffix, "ion") != 0 || s.before_suffix() == 's' || s.before_suffix() == 't';
    if (allowed && s.measure() > 1) s.replace("");
    return;
  }
}

void tidy(Stem& s) {
  if (s.ends("e") && (s.measure() > 1 || (s.measure() == 1 && !s.short_syllable(s.stem_size())))) s.drop_last();
  s.whole();
  if (s.measure() > 1 && s.doubled() && s.last() == 'l') s.drop_last();
}

}  // namespace

std::string porter_stem(const std::string& word) {
  if (word.size() <= 2 || word.size() > 100) return word;
  for (char c : word)
    if (c < 'a' || c > 'z') return word;
  Stem s(word);
  plurals(s);
  past_and_progressive(s);
  if (s.ends("y") && s.has_vowel()) s.set_last('i');
  long_suffixes(s);
  last_suffix(s);
  tidy(s);
  return s.word();
}

}  // namespace asr
