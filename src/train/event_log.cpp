#include "train/event_log.h"

#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr const char* kEventFile = "events.out.tfevents.";  // TensorBoard looks for it

// "2026-01-31T12:00:00Z" in seconds; 0 for anything else.
double seconds_of(const std::string& text) {
  std::tm parts = {};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end && *end == '\0' ? static_cast<double>(timegm(&parts)) : 0;
}

bool is_stage_line(const json& line) {
  return line.contains("scores");
}

// Slashes would make groups of their own.
std::string tag_of(const char* group, const std::string& name) {
  auto text = printable(name, 200);
  for (char& c : text)
    if (c == '/') c = '_';
  return cat(group, "/", text);
}

std::string record_of(const json& line, const std::vector<std::string>& tasks) {
  const auto scalars = event_scalars(line, tasks);
  if (scalars.empty()) return "";
  const auto step = line.find(is_stage_line(line) ? "stage" : "current_steps"), time = line.find("time");
  if (step == line.end() || !step->is_number_integer()) return "";
  return event_record(time != line.end() && time->is_string() ? seconds_of(*time) : 0, *step, scalars);
}

}  // namespace

std::vector<EventScalar> event_scalars(const json& line, const std::vector<std::string>& tasks) {
  std::vector<EventScalar> out;
  const auto add = [&](const char* group, const std::string& name, const json& value) {
    if (value.is_number() && std::isfinite(value.get<double>())) out.push_back({tag_of(group, name), value});
  };
  if (!is_stage_line(line)) {
    if (!line.contains("current_steps")) return out;
    for (const auto& [key, value] : line.items())
      if (key == "loss" || key == "lr" || key == "grad_norm" || key == "epoch" || ends_with(key, "_loss"))
        add("train", key, value);
    return out;
  }
  const auto& scores = line["scores"];
  if (!scores.is_array()) return out;
  for (size_t i = 0; i < scores.size() && i < tasks.size(); ++i) add("score", tasks[i], scores[i]);
  if (line.contains("AP")) add("summary", "AP", line["AP"]);
  for (const auto& [key, group] :
       {std::pair("skill_accuracy", "skill accuracy"), std::pair("skill_forgetting", "skill forgetting"),
        std::pair("skill_drift", "drift")})
    if (line.contains(key) && line[key].is_object())
      for (const auto& [name, value] : line[key].items()) add(group, name, value);
  return out;
}

std::string event_file_of(const std::string& log, const std::vector<std::string>& tasks, int64_t begun) {
  auto out = event_file_start(static_cast<double>(begun));
  std::istringstream lines(log);
  for (std::string text; std::getline(lines, text);) {
    json line;
    JsonProblem ignored;  // what a reader of the log will say
    if (try_parse_json(text, line, ignored) && line.is_object()) out += record_of(line, tasks);
  }
  return out;
}

EventLog::EventLog(const std::string& folder, const std::string& log, std::vector<std::string> tasks)
    : tasks_(std::move(tasks)) {
  for (const auto& name : list_folder(folder))
    if (name.rfind(kEventFile, 0) == 0) std::filesystem::remove(folder + "/" + name);
  const auto begun = static_cast<int64_t>(std::time(nullptr));
  path_ = cat(folder, "/", kEventFile, begun, ".", getpid(), ".0");
  write_file_atomically(path_, event_file_of(log, tasks_, begun));
}

void EventLog::add(const json& line) {
  const auto record = record_of(line, tasks_);
  std::ofstream file(path_, std::ios::app | std::ios::binary);
  file << record << std::flush;
  if (!file) fail_system(path_, ": cannot be written to; is the disk full?");
}

}  // namespace asr
