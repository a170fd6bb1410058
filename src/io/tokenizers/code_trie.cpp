#include "io/tokenizers/code_trie.h"

namespace asr {
namespace {

uint64_t edge_key(uint32_t node, uint32_t code) {
  return static_cast<uint64_t>(node) << 32 | code;
}

}  // namespace

void CodeTrie::add(const Characters& text, int64_t value) {
  uint32_t node = 0;
  for (const auto& c : text) {
    const auto [edge, is_new] = edges_.emplace(edge_key(node, c.code), static_cast<uint32_t>(values_.size()));
    if (is_new) values_.push_back(-1);
    node = edge->second;
  }
  if (values_[node] < 0) values_[node] = value;
}

CodeTrie::Match CodeTrie::longest(const Characters& text, size_t begin) const {
  Match out{begin, values_[0]};
  uint32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto edge = edges_.find(edge_key(node, text[i].code));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (values_[node] >= 0) out = {i + 1, values_[node]};
  }
  return out;
}

}  // namespace asr
