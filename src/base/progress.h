// A progress line with the time left. On a terminal it redraws one line that fits the window; elsewhere
// (a log file, CI) it prints a plain line after ten seconds, then ever more seldom, and one at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace asr {

class Progress {
 public:
  // What stays at the end: the finished line, or nothing (a step on the way; a log file keeps it if it took long).
  enum class Ends { seen, unseen };
  Progress(std::string label, int64_t total, std::FILE* stream = stderr);
  Progress(std::string label, int64_t total, Ends ends, std::FILE* stream = stderr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(int64_t steps = 1, const std::string& note = "");
  void finish();

  // The text of the line for a window of `columns` (0: no window, no bar); public so that a test can resize the window.
  std::string line(double elapsed_seconds, int columns) const;

 private:
  void draw(bool last);

  using Clock = std::chrono::steady_clock;
  std::string label_, note_;
  int64_t total_, done_ = 0;
  std::FILE* stream_;
  Ends ends_;
  bool terminal_, finished_ = false, printed_ = false;
  Clock::time_point start_, drawn_;
};

}  // namespace asr
