#include "cli/drift_points.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace asr {
namespace {

constexpr size_t kLeastSamples = 4;  // that a variance is taken of

using SkillOfTask = std::pair<int64_t, std::string>;

std::set<SkillOfTask> known_at(const StageSamples& stage) {
  std::set<SkillOfTask> out;
  for (const int64_t skill : stage.file.skills())
    for (const auto& task : stage.file.tasks(skill)) out.insert({skill, task});
  return out;
}

// Samples of a skill in a task, by their places in both files.
struct TrackedSkill {
  PairedPlaces places;
  double forgetting = 0;
};

// The mean of differences: a difference of means would round equal ones apart, and their ranks with them.
double mean_forgetting(const AnalysisSamples& before, const AnalysisSamples& after, const PairedPlaces& places) {
  double sum = 0;
  for (size_t i = 0; i < places.before.size(); ++i)
    sum += before.correct[places.before[i]] - after.correct[places.after[i]];
  return sum / static_cast<double>(places.before.size());
}

std::vector<TrackedSkill> tracked_skills(const AnalysisFile& before, const AnalysisFile& after,
                                         const std::set<SkillOfTask>& of) {
  std::vector<TrackedSkill> out;
  for (const auto& [skill, task] : of) {
    if (shared_tasks(before, after, skill).count(task) == 0) continue;
    auto places = paired_places(before, after, skill, {task});
    if (places.before.size() < kLeastSamples) continue;
    const double forgetting = mean_forgetting(before.samples, after.samples, places);
    out.push_back({std::move(places), forgetting});
  }
  return out;
}

std::vector<Vector> picked_rows(const std::vector<Vector>& rows, const std::vector<size_t>& places) {
  std::vector<Vector> out;
  for (const size_t place : places) out.push_back(rows[place]);
  return out;
}

// The rows are those of all samples of both files, as descriptors or as one head has them.
void add_drift(const std::vector<Vector>& before, const std::vector<Vector>& after,
               const std::vector<TrackedSkill>& tracked, double floor, PairedValues& out) {
  for (const auto& [places, forgetting] : tracked) {
    const auto old_rows = picked_rows(before, places.before), new_rows = picked_rows(after, places.after);
    out.emplace_back(drift_of_rows(old_rows, new_rows, floor), forgetting);
  }
}

void add_points(const StageSamples& before, const StageSamples& after, const std::set<SkillOfTask>& of,
                DriftPoints& out) {
  check_compatible(before.options, after.options, before.file.path);
  const double floor = std::max(before.options.spectral.covariance_floor, kSmallestMetric);
  const auto tracked = tracked_skills(before.file, after.file, of);
  const auto &old = before.file.samples, &now = after.file.samples;
  add_drift(old.descriptor, now.descriptor, tracked, floor, out.averaged);
  if (old.heads.empty() || now.heads.empty()) return;
  for (size_t head = 0; head < out.heads.size(); ++head) {
    const auto index = static_cast<int64_t>(head);
    add_drift(old.of_head(index), now.of_head(index), tracked, floor, out.heads[head]);
  }
}

void make_heads(RunDrift& run) {
  const auto count = static_cast<size_t>(run.layers * run.layer_heads);
  run.step.heads.resize(count);
  run.since_learnt.heads.resize(count);
}

void find_heads(const std::vector<StageSamples>& stages, RunDrift& out) {
  for (const auto& stage : stages) {
    const auto& samples = stage.file.samples;
    if (samples.heads.empty()) continue;
    if (out.layers == 0) {
      out.layers = samples.layers;
      out.layer_heads = samples.layer_heads;
    }
    check(samples.layers == out.layers && samples.layer_heads == out.layer_heads, stage.file.path,
          ": 'sample.heads' has ", samples.layers, " layers of ", samples.layer_heads, " heads, an earlier stage has ",
          out.layers, " of ", out.layer_heads, "; are the files of one run?");
  }
  make_heads(out);
}

void append_values(const PairedValues& from, PairedValues& into) {
  into.insert(into.end(), from.begin(), from.end());
}

void append_heads(const DriftPoints& from, DriftPoints& into) {
  for (size_t head = 0; head < from.heads.size(); ++head) append_values(from.heads[head], into.heads[head]);
}

// Whether all runs that kept heads have the same; which ones goes to `out`.
bool heads_agree(const std::vector<RunDrift>& runs, RunDrift& out) {
  for (const auto& run : runs) {
    if (run.layers == 0) continue;
    if (out.layers != 0 && (run.layers != out.layers || run.layer_heads != out.layer_heads)) return false;
    out.layers = run.layers;
    out.layer_heads = run.layer_heads;
  }
  return true;
}

}  // namespace

RunDrift drift_points(const std::vector<StageSamples>& stages) {
  RunDrift out;
  find_heads(stages, out);
  std::set<SkillOfTask> known;
  for (size_t i = 0; i < stages.size(); ++i) {
    std::set<SkillOfTask> learnt;
    for (const auto& entry : known_at(stages[i]))
      if (known.insert(entry).second) learnt.insert(entry);
    if (i + 1 < stages.size()) add_points(stages[i], stages[i + 1], known_at(stages[i]), out.step);
    for (size_t later = i + 1; later < stages.size(); ++later)
      add_points(stages[i], stages[later], learnt, out.since_learnt);
  }
  return out;
}

RunDrift pooled_drift(const std::vector<RunDrift>& runs) {
  RunDrift out;
  for (const auto& run : runs) {
    append_values(run.step.averaged, out.step.averaged);
    append_values(run.since_learnt.averaged, out.since_learnt.averaged);
  }
  if (!heads_agree(runs, out)) {
    log_warn("the runs' models differ in layers or heads; drift of single heads is not pooled");
    out.layers = 0;
    out.layer_heads = 0;
    return out;
  }
  make_heads(out);
  for (const auto& run : runs) {
    append_heads(run.step, out.step);
    append_heads(run.since_learnt, out.since_learnt);
  }
  return out;
}

}  // namespace asr
