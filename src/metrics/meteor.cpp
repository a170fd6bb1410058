// METEOR with the English parameters of version 1.5 (Denkowski and Lavie, 2014): words match exactly, by stem (Porter)
// or as WordNet synonyms; function words weigh less; scattered matches are penalised. The corpus score is computed from
// summed counts of each sample's best reference. Unlike the Java program there is no paraphrase table, the stemmer is
// Porter's first, and the list of function words is our own.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "io/wordnet.h"
#include "metrics/caption_metrics.h"
#include "metrics/meteor_align.h"
#include "metrics/porter.h"
#include "metrics/words.h"

namespace asr {
namespace {

constexpr double kAlpha = 0.85, kBeta = 0.2, kGamma = 0.6, kDelta = 0.75;  // recall, penalty shape and weight, content
constexpr double kExact = 1, kStem = 0.6, kSynonym = 0.8;
constexpr size_t kMostWords = 400;  // of a sentence; what follows is not aligned, to bound the search

const std::unordered_set<std::string>& function_words() {
  static const std::unordered_set<std::string> words = [] {
    const char* const lists[] = {
        "a an the this that these those some any all no not one two both more most other such same than then so as",
        "i you he she it we they me him her us them my your his its our their who which what when where how there here",
        "and or but if because while of in on at by to for from with without into onto over under about after before",
        "between through during against up down out off near is are was were be been being am has have had do does did",
        "will would can could may might should must shall 's 're 've 'll 'd 'm n't also only just very new said"};
    std::unordered_set<std::string> out;
    for (const char* list : lists)
      for (auto& word : split_words(list)) out.insert(word);
    return out;
  }();
  return words;
}

// What METEOR knows of each word of the captions.
class Lexicon {
 public:
  Lexicon(const Captions& captions, const WordNet& net) {
    for (const auto& word : captions.words) {
      auto senses = net.all_senses(word);
      std::sort(senses.begin(), senses.end());
      entries_.push_back({porter_stem(word), std::move(senses), function_words().count(word) > 0});
    }
  }
  bool is_function(uint32_t word) const { return entries_[word].function; }

  double match(uint32_t a, uint32_t b) const {
    if (a == b) return kExact;
    const auto &x = entries_[a], &y = entries_[b];
    if (x.stem == y.stem) return kStem;
    for (auto i = x.senses.begin(), j = y.senses.begin(); i != x.senses.end() && j != y.senses.end();) {
      if (*i == *j) return kSynonym;
      *i < *j ? ++i : ++j;
    }
    return 0;
  }

 private:
  struct Entry {
    std::string stem;
    std::vector<SynsetId> senses;  // ascending
    bool function;
  };
  std::vector<Entry> entries_;
};

// One side of a comparison: its length and its matches, function words weighing 1 - delta, content words delta.
struct Side {
  double length = 0, matched = 0, words = 0;
  void count(bool function) {
    length += function ? 1 - kDelta : kDelta;
    words += 1;
  }
  void match(double weight, bool function) { matched += weight * (function ? 1 - kDelta : kDelta); }
};

struct Stats {
  Side said, truth;
  double matches = 0, chunks = 0;

  bool perfect() const { return matches == said.words && matches == truth.words && chunks == 1; }
  void add(const Stats& o) {
    const auto join = [](Side& a, const Side& b) {
      a.length += b.length;
      a.matched += b.matched;
      a.words += b.words;
    };
    join(said, o.said);
    join(truth, o.truth);
    matches += o.matches;
    chunks += o.perfect() ? 0 : o.chunks;  // a sentence matched as a whole is not scattered
  }
  double score() const {
    if (matches == 0 || said.matched == 0 || truth.matched == 0) return 0;
    const double precision = said.matched / said.length, recall = truth.matched / truth.length;
    const double mean = precision * recall / (kAlpha * precision + (1 - kAlpha) * recall);
    const double scatter = perfect() ? 0 : chunks / matches;
    return mean * (1 - kGamma * std::pow(scatter, kBeta));
  }
};

Side side_of(const WordIds& words, const Lexicon& lexicon) {
  Side out;
  for (uint32_t word : words) out.count(lexicon.is_function(word));
  return out;
}

Stats compare(WordIds said, WordIds truth, const Lexicon& lexicon) {
  said.resize(std::min(said.size(), kMostWords));
  truth.resize(std::min(truth.size(), kMostWords));
  std::vector<std::vector<int>> candidates(said.size());
  for (size_t i = 0; i < said.size(); ++i)
    for (size_t j = 0; j < truth.size(); ++j)
      if (lexicon.match(said[i], truth[j]) > 0) candidates[i].push_back(static_cast<int>(j));
  const auto alignment = align(candidates, truth.size());
  Stats out{side_of(said, lexicon), side_of(truth, lexicon), static_cast<double>(alignment.matches),
            static_cast<double>(alignment.chunks)};
  for (size_t i = 0; i < said.size(); ++i) {
    if (alignment.partner[i] < 0) continue;
    const uint32_t partner = truth[static_cast<size_t>(alignment.partner[i])];
    const double weight = lexicon.match(said[i], partner);
    out.said.match(weight, lexicon.is_function(said[i]));
    out.truth.match(weight, lexicon.is_function(partner));
  }
  return out;
}

}  // namespace

MetricResult meteor_of(const Captions& captions) {
  const WordNet net;
  const Lexicon lexicon(captions, net);
  Stats total;
  MetricResult out;
  for (const auto& sample : captions.samples) {
    Stats best;
    for (size_t i = 0; i < sample.references.size(); ++i) {
      const auto stats = compare(sample.prediction, sample.references[i], lexicon);
      if (i == 0 || stats.score() > best.score()) best = stats;
    }
    total.add(best);
    out.per_sample.push_back(best.score());
  }
  out.components["meteor"] = captions.samples.size() == 1 ? out.per_sample[0] : total.score();
  out.score = 100 * out.components["meteor"];
  return out;
}

MetricResult evaluate_meteor(const std::vector<Answered>& samples) {
  return meteor_of(Captions(samples));
}

}  // namespace asr
