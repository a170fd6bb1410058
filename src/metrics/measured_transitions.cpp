#include "metrics/measured_transitions.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

constexpr double kSmallestMetric = 1e-12;

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

PairedSamples paired_samples(const AnalysisFile& before, const AnalysisFile& after, int64_t skill,
                             const std::set<std::string>& tasks) {
  const auto old_rows = rows_of_skill(before, skill, tasks), new_rows = rows_of_skill(after, skill, tasks);
  check(old_rows.size() == new_rows.size(), after.path, ": ", new_rows.size(), " samples of skill '",
        printable(after.skill_name(skill)), "' in the tasks shared with ", before.path, ", which has ", old_rows.size(),
        "; the same samples must be measured at every stage");
  PairedSamples out;
  for (size_t i = 0; i < old_rows.size(); ++i) {
    out.old_rows.push_back(before.samples.descriptor[old_rows[i]]);
    out.new_rows.push_back(after.samples.descriptor[new_rows[i]]);
    out.old_score.push_back(before.samples.correct[old_rows[i]]);
    out.new_score.push_back(after.samples.correct[new_rows[i]]);
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
