// In which order a run meets the tasks of its stream.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace asr {

// The stream's own order first, then random ones: the same for every method and seed.
inline std::vector<size_t> task_order(size_t tasks, int64_t order) {
  std::vector<size_t> out(tasks);
  for (size_t i = 0; i < tasks; ++i) out[i] = i;
  if (order > 0) Random({0x07de7, static_cast<uint64_t>(order)}).shuffle(out);
  return out;
}

}  // namespace asr
