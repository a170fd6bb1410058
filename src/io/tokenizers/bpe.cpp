#include "io/tokenizers/bpe.h"

#include <queue>
#include <tuple>

namespace asr {
namespace {

struct Candidate {
  int64_t rank;
  size_t left;  // index of the left symbol
  size_t end;   // where the pair ended when it was found: another end now means that it has changed since
  int64_t id;
};
struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return std::tie(a.rank, a.left) > std::tie(b.rank, b.left);
  }
};

class Merger {
 public:
  Merger(const std::vector<Symbol>& symbols, const FindMerge& find)
      : symbols_(symbols), find_(find), next_(symbols.size()), previous_(symbols.size()) {
    for (size_t i = 0; i < symbols.size(); ++i) {
      next_[i] = i + 1;
      previous_[i] = i - 1;
    }
    for (size_t i = 0; i + 1 < symbols.size(); ++i) consider(i);
  }

  std::vector<Symbol> run() {
    while (!heap_.empty()) {
      const auto best = heap_.top();
      heap_.pop();
      const size_t right = next_[best.left];
      if (right < symbols_.size() && symbols_[right].end == best.end) join(best, right);  // kDead is beyond size
    }
    std::vector<Symbol> out;
    for (size_t i = 0; i < symbols_.size(); i = next_[i]) out.push_back(symbols_[i]);
    return out;
  }

 private:
  static constexpr size_t kDead = SIZE_MAX;
  std::vector<Symbol> symbols_;
  const FindMerge& find_;
  std::vector<size_t> next_, previous_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> heap_;

  void consider(size_t left) {
    const auto& a = symbols_[left];
    const auto& b = symbols_[next_[left]];
    const auto merge = find_(a, b);
    if (merge.rank >= 0) heap_.push({merge.rank, left, b.end, merge.id});
  }
  void join(const Candidate& best, size_t right) {
    symbols_[best.left].id = best.id;
    symbols_[best.left].end = best.end;
    const size_t after = next_[right];
    next_[best.left] = after;
    next_[right] = kDead;
    if (after < symbols_.size()) {
      previous_[after] = best.left;
      consider(best.left);
    }
    if (best.left > 0) consider(previous_[best.left]);
  }
};

}  // namespace

std::vector<Symbol> merge_pairs(const std::vector<Symbol>& symbols, const FindMerge& find) {
  return Merger(symbols, find).run();
}

}  // namespace asr
