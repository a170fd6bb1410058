#include "metrics/wu_palmer.h"

#include <algorithm>
#include <deque>

namespace asr {

// Depths are found along with the node. While its hypernyms are visited it stands in the map as a root, which also ends
// the one cycle that WordNet 3.0 has among its verbs.
const WuPalmer::Node& WuPalmer::node(SynsetId id) {
  const auto found = nodes_.find(id);
  if (found != nodes_.end()) return found->second;
  auto synset = net_.synset(id);
  Node made{synset.words.empty() ? "" : synset.words[0], synset.hypernyms, 0, 0};
  nodes_[id] = made;
  for (size_t i = 0; i < made.hypernyms.size(); ++i) {
    const Node& above = node(made.hypernyms[i]);
    made.least_depth = i == 0 ? above.least_depth + 1 : std::min(made.least_depth, above.least_depth + 1);
    made.greatest_depth = std::max(made.greatest_depth, above.greatest_depth + 1);
  }
  return nodes_[id] = made;
}

const WuPalmer::Distances& WuPalmer::distances(SynsetId id) {
  const auto found = distances_.find(id);
  if (found != distances_.end()) return found->second;
  Distances out;
  std::deque<std::pair<SynsetId, int>> queue = {{id, 0}};
  while (!queue.empty()) {
    const auto [at, distance] = queue.front();
    queue.pop_front();
    if (!out.emplace(at, distance).second) continue;
    for (const auto above : node(at).hypernyms) queue.push_back({above, distance + 1});
  }
  return distances_[id] = std::move(out);
}

const std::vector<SynsetId>& WuPalmer::first_sense(const std::string& word) {
  const auto found = first_senses_.find(word);
  if (found != first_senses_.end()) return found->second;
  auto senses = net_.all_senses(word);
  if (senses.size() > 1) senses.resize(1);
  return first_senses_[word] = std::move(senses);
}

double WuPalmer::of_words(const std::string& a, const std::string& b) {
  if (a == b) return 1;
  const auto &first = first_sense(a), &second = first_sense(b);
  return first.empty() || second.empty() ? 0 : of_senses(first[0], second[0]);
}

double WuPalmer::of_senses(SynsetId a, SynsetId b) {
  const auto known = known_.find({a, b});
  if (known != known_.end()) return known->second;
  const auto &from_a = distances(a), &from_b = distances(b);
  // From a verb there is always a way up, to a root above all words, farther than the farthest hypernym; nouns have a
  // top of their own, and adjectives have none.
  const bool rooted = a.word_class == WordClass::verb;
  const auto to_root = [](const Distances& all) {
    int most = 0;
    for (const auto& [id, distance] : all) most = std::max(most, distance);
    return most + 1;
  };
  const SynsetId* lowest = nullptr;
  for (const auto& [id, distance] : from_a) {
    if (!from_b.count(id)) continue;
    const Node& candidate = node(id);
    if (lowest) {
      const Node& best = node(*lowest);
      if (candidate.least_depth < best.least_depth) continue;
      if (candidate.least_depth == best.least_depth && !(id == a) && (*lowest == a || candidate.name >= best.name))
        continue;
    }
    lowest = &id;
  }
  double out = 0;
  if (lowest && !(rooted && node(*lowest).least_depth == 0 && !(*lowest == a))) {
    const double depth = node(*lowest).greatest_depth + 1;
    out = 2 * depth / (from_a.at(*lowest) + depth + from_b.at(*lowest) + depth);
  } else if (rooted) {
    out = 2.0 / (to_root(from_a) + 1 + to_root(from_b) + 1);
  }
  return known_[{a, b}] = out;
}

}  // namespace asr
