// A run's log as a TensorBoard event file beside it. Every line of log.jsonl becomes a record, and nothing else does,
// so that a resumed run writes the file again from the lines it keeps: no step stands twice and none is missing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/event_file.h"

namespace asr {

// What a line of the log says in numbers: losses, rate and norm of a training step, at its step; scores, AP, accuracy,
// forgetting and drift after a stage, at the number of the stage.
std::vector<EventScalar> event_scalars(const nlohmann::json& line, const std::vector<std::string>& tasks);

// The whole file for the text of a log; `begun` (seconds since 1970) is when the file was, and stands in its name.
std::string event_file_of(const std::string& log, const std::vector<std::string>& tasks, int64_t begun);

class EventLog {
 public:
  // Takes the place of event files that lie in `folder`. `log` is the text of the log so far, `tasks` name the scores.
  EventLog(const std::string& folder, const std::string& log, std::vector<std::string> tasks);
  void add(const nlohmann::json& line);

 private:
  std::vector<std::string> tasks_;
  std::string path_;
};

}  // namespace asr
