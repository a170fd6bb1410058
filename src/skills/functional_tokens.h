// The functional words of a question, whose attention maps are averaged (the paper's U(q)): wh-words, verbs, head
// nouns, relation words, numerals and words about print; attributes where they are asked about. Found by rules over
// closed word lists, so that every run, backbone and tokenizer selects the same characters.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace asr {

struct Word {
  std::string text;           // as written
  size_t begin = 0, end = 0;  // bytes [begin, end) of the question
  bool functional = false;
  const char* reason = "";  // which rule decided: "wh-word", "head noun", "article", "instruction", ...
};

// What a lexicon knows of a lower-cased word; the rules then choose by context. All false: the word is unknown and the
// built-in lists decide alone. The seam for WordNet.
struct PartsOfSpeech {
  bool noun = false, verb = false, adjective = false, adverb = false;
};
using Lexicon = std::function<PartsOfSpeech(const std::string& word)>;

std::vector<Word> functional_words(const std::string& question, const Lexicon& lexicon = {});

// For tokens of any tokenizer, given by the bytes [begin, end) they stand for: true where a token overlaps a functional
// word. If none does, true for every token that is not empty; an empty range (a special token) is never functional.
std::vector<bool> functional_tokens(const std::string& question,
                                    const std::vector<std::pair<size_t, size_t>>& token_offsets,
                                    const Lexicon& lexicon = {});

}  // namespace asr
