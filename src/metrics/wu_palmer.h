// Wu-Palmer similarity of words over WordNet's hypernyms: 2 d / (d1 + d2), where d is the depth of the lowest common
// hypernym and d1, d2 are the depths of the two senses counted through it. Details (which of several common hypernyms,
// the root above all words when the first is a verb, so that the order matters) follow NLTK 3.5, with which published
// scores were made.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "io/wordnet.h"

namespace asr {

class WuPalmer {
 public:
  explicit WuPalmer(const WordNet& net) : net_(net) {}

  // Of the first senses of two words, nouns before verbs before adjectives; 1 for equal words, 0 where one is unknown.
  double of_words(const std::string& a, const std::string& b);
  double of_senses(SynsetId a, SynsetId b);

 private:
  struct Node {
    std::string name;  // its first word, which decides between equals
    std::vector<SynsetId> hypernyms;
    int least_depth = 0, greatest_depth = 0;
  };
  using Distances = std::map<SynsetId, int>;

  const Node& node(SynsetId id);
  const Distances& distances(SynsetId id);                            // to itself and all hypernyms, the shortest way
  const std::vector<SynsetId>& first_sense(const std::string& word);  // none or one

  const WordNet& net_;
  std::map<SynsetId, Node> nodes_;
  std::map<SynsetId, Distances> distances_;
  std::unordered_map<std::string, std::vector<SynsetId>> first_senses_;
  std::map<std::pair<SynsetId, SynsetId>, double> known_;
};

}  // namespace asr
