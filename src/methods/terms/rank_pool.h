// A bounded pool of rank-one experts with keys, as PCLR has it: how many ranks each stage learns, which are dropped,
// and which a query chooses. Keys and queries are a text part and a picture part side by side.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "base/options.h"

namespace asr {

// Ranks of a stage: those learnt before, its own, and every how many-th is dropped after it (0: none is).
struct StageRanks {
  int64_t past = 0, fresh = 0, drops = 0;
};

// Every stage learns `learnt` ranks while there is room for them among `ranks`. Then each stage but the last ends with
// a compression that makes room for the next: the first two free as many as a stage learns, later ones half of that.
struct RankSchedule {
  int64_t ranks = 0, learnt = 0;

  StageRanks at(int stage) const;
  bool compressed_before(int stage) const;
  int64_t most_past() const;  // of any stage
};

// Which of `count` ranks, with `before` others listed before them, stay when every `drops`-th is dropped; 0: all.
std::vector<int64_t> without_every(int64_t drops, int64_t before, int64_t count);

// Keys or queries [n, text width + picture width].
struct QueryScores {
  int64_t text = 0;    // numbers of the text part
  double picture = 1;  // weight of the picture's cosine: width of the picture part over that of the text part
  torch::Tensor operator()(const torch::Tensor& queries, const torch::Tensor& keys) const;  // [queries, keys]
};

enum class RankChoice { sample, batch };
template <>
struct EnumNames<RankChoice> {
  static constexpr const char* names[] = {"sample", "batch"};
};

// 1 for the `wanted` largest of each row, 0 for the others, of equal ones the earlier; by batch: the same for all rows,
// by the sum of their scores.
torch::Tensor largest_of(const torch::Tensor& scores, int64_t wanted, RankChoice choice);

// Mean over rows of KL(teacher || student) on the teacher's `top` largest choices, both tempered and renormalised
// there. Rows [N, choices] belong to samples [N]; the mean is over samples of the mean over their rows.
struct TopDivergence {
  int64_t top = 100;
  double temperature = 2;
  torch::Tensor operator()(const torch::Tensor& teacher, const torch::Tensor& student,
                           const torch::Tensor& samples) const;
};

}  // namespace asr
