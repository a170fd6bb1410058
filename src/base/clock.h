// Seconds on a clock that never goes back, for durations; and the time of day, for logs.
#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace asr {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// "2026-01-31T12:00:00Z"
inline std::string utc_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace asr
