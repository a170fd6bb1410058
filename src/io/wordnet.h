// WordNet 3.0's dictionary files (index, data and exception lists of the four word classes), mapped and searched in
// place: nothing is read before a word is looked up. The files are those of Debian's package wordnet-base, which lacks
// index.sense and lexnames; neither is needed here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/mapped_file.h"

namespace asr {

enum class WordClass { noun, verb, adjective, adverb };
inline constexpr WordClass kWordClasses[] = {WordClass::noun, WordClass::verb, WordClass::adjective, WordClass::adverb};

// A synset is named by its class and its byte offset in that class's data file.
struct SynsetId {
  WordClass word_class = WordClass::noun;
  uint32_t offset = 0;
  bool operator==(const SynsetId& o) const { return word_class == o.word_class && offset == o.offset; }
  bool operator<(const SynsetId& o) const {
    return word_class != o.word_class ? word_class < o.word_class : offset < o.offset;
  }
};

struct Synset {
  std::vector<std::string> words;   // as spelt in the file: underscores for spaces, capitals kept
  std::vector<SynsetId> hypernyms;  // of classes and of instances
};

class WordNet {
 public:
  // The folder of the files: `folder`, or ASR_WORDNET, or the distribution's.
  explicit WordNet(const std::string& folder = "");

  // Senses of a lemma, the most frequent first; empty when the class does not have it.
  std::vector<SynsetId> senses(const std::string& lemma, WordClass word_class) const;

  // Base forms of an inflected word that the class has: by the exception list, else by its rules of detachment. The
  // word itself comes first if it is a lemma.
  std::vector<std::string> base_forms(const std::string& word, WordClass word_class) const;

  // How often a lemma occurs in this class in the texts that WordNet's senses were counted in, over all senses; 0 also
  // where the file of counts (cntlist.rev) is absent.
  int64_t uses(const std::string& lemma, WordClass word_class) const;

  // Senses of all base forms in all classes, nouns first.
  std::vector<SynsetId> all_senses(const std::string& word) const;

  Synset synset(SynsetId id) const;

  std::vector<std::string> files() const;  // that it reads

 private:
  struct File {
    std::string path;
    std::shared_ptr<MappedFile> bytes;
    std::string line_of(const std::string& key) const;  // the line that starts with `key` and a space, or ""
    std::string line_at(size_t offset) const;
    size_t first_not_below(const std::string& key) const;  // byte of the first line that is not less than `key`
  };
  bool has(const std::string& lemma, WordClass word_class) const;

  std::array<File, 4> index_, data_, exceptions_;
  File counts_;
};

}  // namespace asr
