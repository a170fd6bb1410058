// Closed lists of English words and endings, as far as questions about images need them: which parts a word can play.
// A lexicon such as WordNet can be put in front (functional_tokens.h); these lists then fill its gaps.
#pragma once

#include <cstdint>
#include <string>

namespace asr {

enum WordTag : uint32_t {
  kDeterminer = 1 << 0,  // the, a, this, his
  kPronoun = 1 << 1,     // it, you, there
  kStop = 1 << 2,        // and, of, very, please
  kWh = 1 << 3,          // what, how
  kAuxiliary = 1 << 4,   // is, does, can
  kRelation = 1 << 5,    // on, above, same, before
  kNumeral = 1 << 6,     // two, third, 14
  kReading = 1 << 7,     // letter, printed, says
  kAttribute = 1 << 8,   // red, small, wooden
  kNoun = 1 << 9,        // where a list or an ending says so
  kVerb = 1 << 10,
  kComparative = 1 << 11,  // bigger, most
  kPlural = 1 << 12,       // ends like a plural
  kImage = 1 << 13         // picture, photo, video: names of the medium
};

bool is_listed_word(const std::string& word);  // lower-cased; false: only its ending speaks for it

// All parts the lower-cased word can play; 0 if nothing is known of it.
uint32_t word_tags(const std::string& word);

}  // namespace asr
