// A run's folder as a resumed run finds it. Everything in it is looked at before anything is written: what is there and
// wrong is refused, what is missing is named, and what a checkpoint can bring back is written again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

struct FoundRun {
  bool complete = false;
  nlohmann::json fingerprint;      // of the run that lies there; null: none has begun
  std::vector<std::string> notes;  // what is missing, or will be written again
};

// Changes nothing. `wanted` is the fingerprint of the run that is to go on here.
FoundRun examine_run(const std::string& folder, const nlohmann::json& wanted);

// Files of a run that checksums.json covers, where they are there; for a run that has none yet.
std::vector<std::string> text_files_of_run(const std::string& folder);

// How far the lines of a log reach that is shorter than it was, and which are gone, in words.
struct LogRemains {
  size_t bytes = 0;
  std::string missing;
};
LogRemains whole_log_lines(const std::string& text, int64_t last_step);

}  // namespace asr
