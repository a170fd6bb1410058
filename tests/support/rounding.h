// How far two correct computations of the same numbers may lie apart, from sizes and the number format alone: what a
// test may allow between two code paths without knowing the CPU.
#pragma once

#include <torch/types.h>

#include <limits>

namespace asr {

// A sum of n products is rounded n times, each time by at most half an epsilon of its terms. In another order (another
// kernel, another number of rows in a matrix product) it may be as far off on the other side. `roundings` adds up n
// over all sums on the way from input to output; the bound is relative to the values on the way, which norms keep
// near one. A worst case: what is seen is about its square root.
inline double rounding_bound(int64_t roundings, at::ScalarType type = at::kFloat) {
  const double epsilon =
      type == at::kDouble ? std::numeric_limits<double>::epsilon() : double(std::numeric_limits<float>::epsilon());
  return static_cast<double>(roundings) * epsilon;
}

}  // namespace asr
