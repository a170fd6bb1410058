// Parts of speech from WordNet 3.0 for the rules of functional_tokens.h: which classes a word has at all, without those
// in which it is rare (the counts of its sense-tagged corpus: "dog" is a noun 42 times, a verb twice). The rules then
// choose by context.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "skills/functional_tokens.h"

namespace asr {

// Reads the dictionary of io/wordnet.h: `folder`, or ASR_WORDNET, or the distribution's; looked-up words are kept. Safe
// to call from several threads. Missing files are an error.
Lexicon wordnet_lexicon(const std::string& folder = "");

// `automatic`: WordNet where it is installed, otherwise the built-in lists alone.
enum class LexiconChoice { automatic, wordnet, lists };
template <>
struct EnumNames<LexiconChoice> {
  static constexpr const char* names[] = {"auto", "wordnet", "lists"};
};

// From now on, in this process; `automatic` until then.
void use_lexicon(LexiconChoice choice);
Lexicon question_lexicon();                // empty: the lists alone
std::vector<std::string> lexicon_files();  // that it is read from

}  // namespace asr
