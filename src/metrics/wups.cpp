// WUPS as NExT-QA's open-ended evaluation computes it: lemmas without stop words, each word worth its best Wu-Palmer
// similarity on the other side, the product of those, the lower of the two directions. Similarities below the threshold
// count a tenth. Questions of type DB and DC (yes/no and counts) need an exact match. Several references: the best.
// `wups_vqacl` is VQACL's evaluator: no lemmas, no exact match, only the first reference.
#include <algorithm>
#include <unordered_set>

#include "metrics/caption_tokens.h"
#include "metrics/lemmas.h"
#include "metrics/metric.h"
#include "metrics/words.h"
#include "metrics/wu_palmer.h"

namespace asr {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMostAnswerWords = 200;  // the rest of a longer answer is cut off: the comparison is quadratic

// The stop words of NExT-QA: common English ones, but without place words, negations and quantities.
const std::unordered_set<std::string>& stop_words() {
  static const std::unordered_set<std::string> words = [] {
    const char* const lists[] = {
        "i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers "
        "herself",
        "it its itself they them their theirs themselves what which who whom this that these those you're you've "
        "you'll",
        "you'd she's it's that'll am is are was were be been being have has had having do does did doing can will "
        "should",
        "should've a an the and but if or because as until while to from of at for with about into through during "
        "again",
        "further then here there when where why how all any each most other some such only own so than too very just "
        "now",
        "s t d ll m o re ve y ma don ain aren couldn didn doesn hadn hasn haven isn mightn mustn needn shan shouldn "
        "wasn",
        "weren won wouldn don't aren't couldn't didn't doesn't hadn't hasn't haven't isn't mightn't mustn't needn't",
        "shan't shouldn't wasn't weren't won't wouldn't"};
    std::unordered_set<std::string> out;
    for (const char* list : lists)
      for (auto& word : split_words(list)) out.insert(word);
    return out;
  }();
  return words;
}

double one_way(const Words& from, const Words& to, double threshold, WuPalmer& similarity) {
  double product = 1;
  bool any = false;
  for (const auto& word : from) {
    double best = 0;
    for (const auto& other : to) {
      const double value = similarity.of_words(word, other);
      best = std::max(best, value < threshold ? 0.1 * value : value);
    }
    if (best > 0) {
      product *= best;
      any = true;
    }
  }
  return any ? product : 0;
}

double wups(const Words& said, const Words& truth, double threshold, WuPalmer& similarity) {
  return std::min(one_way(said, truth, threshold, similarity), one_way(truth, said, threshold, similarity));
}

Words without_stop_words(Words words) {
  words.erase(std::remove_if(words.begin(), words.end(), [](const auto& word) { return stop_words().count(word) > 0; }),
              words.end());
  words.resize(std::min(words.size(), kMostAnswerWords));
  return words;
}

struct Rules {
  bool lemmas = true, exact_types = true, all_references = true;
};

// Means per question type and per group (its first letter), where types are given.
void add_types(const std::vector<Answered>& samples, const std::vector<double>& values, MetricResult& out) {
  std::map<std::string, std::pair<double, double>> sums;
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string type = samples[i].type == "TP" ? "TN" : samples[i].type;
    if (type.empty()) continue;
    for (const auto& key : {type, type.substr(0, 1)}) {
      sums[key].first += values[i];
      sums[key].second += 1;
    }
  }
  for (const auto& [key, sum] : sums) out.components["wups_0_" + key] = sum.first / sum.second;
}

MetricResult evaluate(const std::vector<Answered>& samples, Rules rules) {
  const WordNet net;
  WuPalmer similarity(net);
  Lemmatizer lemmatizer(net);
  const auto prepared = [&](const std::string& text) {
    Words words = caption_tokens(text);
    words.resize(
        std::min(words.size(), 4 * kMostAnswerWords));  // before the costly part; most stop words are gone after it
    if (rules.lemmas)
      for (auto& word : words) word = lemmatizer.lemma(word);
    return without_stop_words(words);
  };
  std::vector<double> at_0, at_9;
  for (const auto& sample : samples) {
    const auto said = prepared(sample.text);
    const bool exact = rules.exact_types && (sample.type == "DB" || sample.type == "DC");
    double best_0 = 0, best_9 = 0;
    const size_t count = rules.all_references ? sample.references.size() : 1;
    for (size_t i = 0; i < count; ++i) {
      const auto truth = prepared(sample.references[i]);
      best_0 = std::max(best_0, exact ? said == truth : wups(said, truth, 0, similarity));
      best_9 = std::max(best_9, exact ? said == truth : wups(said, truth, 0.9, similarity));
    }
    at_0.push_back(best_0);
    at_9.push_back(best_9);
  }
  auto out = mean_result("wups_0", std::move(at_0));
  out.components["wups_9"] = mean_result("", std::move(at_9)).score / 100;
  add_types(samples, out.per_sample, out);
  return out;
}

}  // namespace

MetricResult evaluate_wups(const std::vector<Answered>& samples) {
  return evaluate(samples, {});
}

MetricResult evaluate_wups_vqacl(const std::vector<Answered>& samples) {
  return evaluate(samples, {false, false, false});
}

}  // namespace asr
