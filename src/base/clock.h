// Seconds on a clock that never goes back, for durations.
#pragma once

#include <chrono>

namespace asr {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace asr
