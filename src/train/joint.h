// Joint training, the upper bound: one pass through the union of all tasks, in which every task's samples come as often
// as its epochs say. It has no stages, so the limit on a stage's steps is none of its own.
#pragma once

#include <cstdint>
#include <vector>

namespace asr {

struct UnionPart {
  int64_t samples = 0;
  double epochs = 1;
};

// What is gone through, `epochs` times.
struct UnionDraw {
  std::vector<int64_t> rows;  // of the union, repeated as often as they are drawn; empty: every row once
  int64_t samples = 0;        // that many
  double epochs = 1;
};

// Where all parts have the same number of epochs, the union itself; else one list with whole repetitions of each part
// and, for a fraction of an epoch, rows chosen by `seed`.
UnionDraw draw_union(const std::vector<UnionPart>& parts, uint64_t seed);

}  // namespace asr
