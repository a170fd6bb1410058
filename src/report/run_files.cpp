#include "report/run_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "report/intervals.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Lays the lines of a log on one axis of steps. The counter may begin anew in every stage, and a resumed run repeats
// the steps since its checkpoint: the later line is the one that counts.
class LogAxis {
 public:
  explicit LogAxis(LossLog& log) : log_(log) {}

  void add(const JsonFields& fields, const json& line) {
    const double count = static_cast<double>(fields.integer("current_steps")), stage = fields.number_or_nan("stage");
    const double step = count + offset_of(std::isnan(stage) ? 0 : stage, count);
    while (!log_.step.empty() && log_.step.back() >= step) log_.step.pop_back();
    log_.step.push_back(step);
    for (auto* lists : {&log_.losses, &log_.others})
      for (auto& [key, values] : *lists) {
        values.resize(log_.step.size() - 1);
        values.push_back(kUnknown);
      }
    for (const auto& [key, value] : line.items()) {
      if (key == "loss" || ends_with(key, "_loss")) put(log_.losses[key], fields.number_or_nan(key.c_str()));
      if (key == "lr" || key == "grad_norm" || ends_with(key, "_weight"))
        put(log_.others[key], fields.number_or_nan(key.c_str()));
    }
    if (value_is_number(line, "elapsed_time")) add_step_time(fields.number_or_nan("elapsed_time"));
  }

  void finish() {
    for (const auto& [stage, start] : starts_)
      if (stage != starts_.begin()->first) log_.boundaries.push_back(start.first);
  }

 private:
  struct Start {
    double first, offset;
  };

  // Earlier versions wrote the time as text.
  static bool value_is_number(const json& line, const char* key) {
    const auto place = line.find(key);
    return place != line.end() && place->is_number();
  }

  void put(std::vector<double>& values, double value) const {
    values.resize(log_.step.size(), kUnknown);
    values.back() = value;
  }

  // Between two lines; a resumed run counts its time anew, and the first line has none before it.
  void add_step_time(double elapsed) {
    const double steps = log_.step.back() - time_step_, seconds = elapsed - time_;
    if (steps > 0 && seconds > 0 && time_step_ > 0) put(log_.others["step_ms"], 1000 * seconds / steps);
    time_ = elapsed;
    time_step_ = log_.step.back();
  }

  double offset_of(double stage, double count) {
    starts_.erase(starts_.upper_bound(stage), starts_.end());  // a resumed run does those stages again
    const double last = log_.step.empty() ? 0 : log_.step.back();
    const double before = starts_.empty() ? 0 : starts_.rbegin()->second.offset;
    const double offset = before + count <= last ? last : before;
    return starts_.emplace(stage, Start{offset + count, offset}).first->second.offset;
  }

  LossLog& log_;
  std::map<double, Start> starts_;   // by stage
  double time_ = 0, time_step_ = 0;  // of the line before
};

// "stage-03-task-01.jsonl" -> 3, 1; false for any other name.
bool parse_prediction_name(const std::string& name, int64_t& stage, int64_t& task) {
  const size_t middle = name.find("-task-");
  if (name.rfind("stage-", 0) != 0 || middle == std::string::npos || !ends_with(name, ".jsonl")) return false;
  return parse_int(name.substr(6, middle - 6), stage) &&
         parse_int(name.substr(middle + 6, name.size() - middle - 12), task);
}

std::map<std::string, double> read_predictions(const std::string& path, std::string& problem) {
  std::map<std::string, double> out;
  read_as_written(path);
  for_each_json_line(path, [&](const json& line, const std::string& place) {
    const auto id = line.find("question_id");
    check(id != line.end(), place, ": key 'question_id' is missing");
    const double score = JsonFields(line, place).number_or_nan("score");
    check(score >= 0 && score <= 1, place, ": 'score' must be a number in 0..1");
    if (!out.emplace(id->dump(), score).second) problem = place + ": question_id stands twice";
  });
  return out;
}

// Paths by task, counted from 1, of the last stage that has any; empty where that is the base, or nothing.
std::map<int64_t, std::string> last_prediction_files(const Run& run) {
  const fs::path folder = fs::path(run.folder) / "predictions";
  std::map<int64_t, std::map<int64_t, std::string>> stages;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder)) {
      int64_t stage = 0, task = 0;
      if (parse_prediction_name(entry.path().filename().string(), stage, task)) stages[stage][task] = entry.path();
    }
  if (stages.empty() || stages.rbegin()->first == 0) return {};
  return stages.rbegin()->second;
}

}  // namespace

LossLog read_loss_log(const Run& run) {
  LossLog log;
  const std::string path = run.folder + "/log.jsonl";
  if (!path_exists(path)) return log;
  LogAxis axis(log);
  const auto use = [&](const json& line, const std::string& place) {
    if (line.contains("loss")) axis.add(JsonFields(line, place), line);  // others report evaluation
  };
  read_as_written(path);
  for_each_json_line(path, use, /*growing=*/!run.complete);
  axis.finish();
  return log;
}

Predictions read_last_predictions(const Run& run) {
  Predictions out;
  const auto last = last_prediction_files(run);
  if (last.empty()) {
    out.problem = run.folder + ": has no predictions";
    return out;
  }
  for (size_t task = 1; task <= run.tasks.size(); ++task) {
    const auto place = last.find(static_cast<int64_t>(task));
    if (place == last.end()) {
      out.problem =
          cat(run.folder, ": has no predictions of task '", printable(run.tasks[task - 1]), "' after the last stage");
      return out;
    }
    out.tasks.push_back(read_predictions(place->second, out.problem));
  }
  return out;
}

std::vector<RoutedSample> read_routed_samples(const Run& run) {
  std::vector<RoutedSample> out;
  for (const auto& [task, path] : last_prediction_files(run)) {
    if (task < 1 || task > static_cast<int64_t>(run.tasks.size())) continue;
    read_as_written(path);
    for_each_json_line(path, [&, place = static_cast<size_t>(task) - 1](const json& line, const std::string& where) {
      const auto slots = line.find("slots");
      if (slots == line.end()) return;
      const JsonFields fields(line, where);
      RoutedSample sample;
      sample.id = line.value("question_id", json()).dump();
      sample.question = fields.text("question");
      sample.answer = fields.text("answer");
      sample.prediction = fields.text("text");
      sample.slot = fields.text("slot");
      sample.task = place;
      check(slots->is_object(), where, ": 'slots' is not a JSON object");
      for (const auto& [name, probability] : slots->items()) {
        check(probability.is_number(), where, ": 'slots' has something other than numbers");
        sample.slots.emplace_back(name, probability.get<double>());
      }
      out.push_back(std::move(sample));
    });
  }
  return out;
}

}  // namespace asr
