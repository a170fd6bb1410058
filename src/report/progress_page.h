// How far runs are, read from their folders alone, and the page that shows it while they train.
#pragma once

#include <string>
#include <vector>

#include "base/text.h"

namespace asr {

struct RunProgress {
  std::string folder;
  bool complete = false;
  double percent = 0, seconds_left = 0;  // of the whole run; NaN: not known yet
  int64_t stage = 0;
};
// Of every run in these paths (as load_runs takes them), by folder. A log that cannot be read says nothing.
std::vector<RunProgress> read_progress(const std::vector<std::string>& paths);

// The page as it is now, with the progress on top; it loads itself anew every `seconds` while a run is not complete.
// Before any stage is done it shows the progress alone.
std::string watched_page(const std::vector<std::string>& paths, const std::string& version, int seconds);

}  // namespace asr
