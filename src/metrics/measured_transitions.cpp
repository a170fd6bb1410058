#include "metrics/measured_transitions.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

// The rows of one skill in these tasks: task by task, and within each in the order of the file, which is the same at
// every stage.
std::vector<size_t> rows_of_skill(const AnalysisFile& file, int64_t skill, const std::set<std::string>& tasks) {
  std::vector<size_t> out;
  for (const auto& task : tasks)
    for (size_t i = 0; i < file.samples.skill.size(); ++i) {
      const bool wanted = file.task_names[static_cast<size_t>(file.samples.task[i])] == task;
      if (wanted && file.samples.skill[i] == skill) out.push_back(i);
    }
  return out;
}

}  // namespace

PairedPlaces paired_places(const AnalysisFile& before, const AnalysisFile& after, int64_t skill,
                           const std::set<std::string>& tasks) {
  PairedPlaces out{rows_of_skill(before, skill, tasks), rows_of_skill(after, skill, tasks)};
  check(out.before.size() == out.after.size(), after.path, ": ", out.after.size(), " samples of skill '",
        printable(after.skill_name(skill)), "' in the tasks shared with ", before.path, ", which has ",
        out.before.size(), "; the same samples must be measured at every stage");
  return out;
}

PairedSamples paired_samples(const AnalysisFile& before, const AnalysisFile& after, int64_t skill,
                             const std::set<std::string>& tasks) {
  const auto places = paired_places(before, after, skill, tasks);
  PairedSamples out;
  for (const size_t place : places.before) {
    out.old_rows.push_back(before.samples.descriptor[place]);
    out.old_score.push_back(before.samples.correct[place]);
  }
  for (const size_t place : places.after) {
    out.new_rows.push_back(after.samples.descriptor[place]);
    out.new_score.push_back(after.samples.correct[place]);
  }
  return out;
}

MeasuredTransition measured_transition(const AnalysisFile& before, const AnalysisFile& after, double variance_floor) {
  MeasuredTransition out;
  for (const int64_t skill : std::set<int64_t>(before.samples.skill.begin(), before.samples.skill.end())) {
    const auto samples = paired_samples(before, after, skill, shared_tasks(before, after, skill));
    if (samples.old_rows.size() < 2) {
      out.left_out.push_back({skill, samples.old_rows.size()});
      continue;
    }
    out.transition.skills.push_back(drift_of_skill(samples, std::max(variance_floor, kSmallestMetric)));
    out.transition.skills.back().skill = skill;
  }
  fill_shares(out.transition);
  return out;
}

}  // namespace asr
