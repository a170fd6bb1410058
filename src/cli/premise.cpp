// asr premise RUN...: do spectra tell skills and stages apart, and does their drift go with forgetting? From the
// analysis files of runs (docs/maths.md, "The premise").
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/stage_samples.h"
#include "report/correlation.h"
#include "spectral/naming.h"

namespace asr {
namespace {

using nlohmann::json;

json naming_json(const Naming& naming) {
  if (naming.tested == 0) return json();
  return {{"accuracy", naming.accuracy}, {"chance", naming.chance}, {"tested", naming.tested}};
}

// One layer and head of every sample. [D0] each
std::vector<Vector> head_rows(const AnalysisSamples& samples, int64_t head) {
  const int64_t count = samples.layers * samples.layer_heads;
  std::vector<Vector> out;
  for (const auto& row : samples.heads) {
    const auto width = static_cast<int64_t>(row.size()) / count;
    out.emplace_back(row.begin() + head * width, row.begin() + (head + 1) * width);
  }
  return out;
}

json heads_json(const AnalysisSamples& samples) {
  json out = json::array();
  for (int64_t head = 0; head < samples.layers * samples.layer_heads; ++head) {
    const auto rows = head_rows(samples, head);
    out.push_back({{"layer", head / samples.layer_heads},  // of those tapped
                   {"head", head % samples.layer_heads},
                   {"separation_skills", finite_or_null(separation(rows, samples.skill))},
                   {"separation_stages", finite_or_null(separation(rows, samples.task))},
                   {"naming_stages", naming_json(naming_accuracy(rows, samples.task))}});
  }
  return out;
}

json stage_premise(const StageSamples& stage) {
  const auto& samples = stage.file.samples;
  json out = {{"stage", stage.stage},
              {"samples", samples.skill.size()},
              {"separation_skills", finite_or_null(separation(samples.descriptor, samples.skill))},
              {"separation_stages", finite_or_null(separation(samples.descriptor, samples.task))},
              {"naming_skills", naming_json(naming_accuracy(samples.descriptor, samples.skill))},
              {"naming_stages", naming_json(naming_accuracy(samples.descriptor, samples.task))}};
  if (samples.heads.empty()) return out;
  out["heads"] = heads_json(samples);
  out["naming_stages_heads_kept"] =
      naming_json(naming_accuracy(samples.heads, samples.task, samples.layers * samples.layer_heads));
  return out;
}

// A skill in a task between two stages: how far its spectra moved, how much more often it failed.
struct DriftPoint {
  double drift = 0, forgetting = 0;
};
using SkillOfTask = std::pair<int64_t, std::string>;

std::set<SkillOfTask> known_at(const StageSamples& stage) {
  std::set<SkillOfTask> out;
  for (const int64_t skill : stage.file.skills())
    for (const auto& task : stage.file.tasks(skill)) out.insert({skill, task});
  return out;
}

void add_points(const StageSamples& before, const StageSamples& after, const std::set<SkillOfTask>& of,
                std::vector<DriftPoint>& out) {
  constexpr size_t kLeast = 4;  // samples that a variance is taken of
  check_compatible(before.options, after.options, before.file.path);
  const double floor = std::max(before.options.spectral.covariance_floor, 1e-12);
  for (const auto& [skill, task] : of) {
    if (shared_tasks(before.file, after.file, skill).count(task) == 0) continue;
    const auto samples = paired_samples(before.file, after.file, skill, {task});
    if (samples.old_rows.size() < kLeast) continue;
    const auto found = drift_of_skill(samples, floor);
    out.push_back({found.delta, found.risk_increase()});
  }
}

struct DriftPoints {
  std::vector<DriftPoint> step, since_learnt;
};

// Between consecutive stages, and from the stage that learnt a task to every later one.
DriftPoints drift_points(const std::vector<StageSamples>& stages) {
  DriftPoints out;
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

json interval_json(const Interval& interval) {
  if (!interval.known()) return json();
  return {interval.low, interval.high};
}

json correlation_json(const std::vector<DriftPoint>& list) {
  PairedValues points;
  for (const auto& point : list) points.emplace_back(point.drift, point.forgetting);
  const auto found = correlation_of(points);
  return {{"points", found.n},
          {"pearson", finite_or_null(found.pearson)},
          {"pearson_interval", interval_json(found.pearson_interval)},
          {"spearman", finite_or_null(found.spearman)},
          {"spearman_interval", interval_json(found.spearman_interval)}};
}

json drift_json(const DriftPoints& points) {
  return {{"step", correlation_json(points.step)}, {"since_learnt", correlation_json(points.since_learnt)}};
}

// The base first where it was analysed; what drifts is counted from the first stage on.
json run_premise(const std::string& folder, DriftPoints& all) {
  std::vector<StageSamples> stages;
  json list = json::array();
  const auto path = [&](int64_t stage) { return fmt::format("{}/stages/{:02}/analysis.safetensors", folder, stage); };
  if (path_exists(path(0))) list.push_back(stage_premise(read_stage_samples(path(0), 0)));
  for (const int64_t stage : stages_in(folder)) {
    stages.push_back(read_stage_samples(path(stage), stage));
    list.push_back(stage_premise(stages.back()));
  }
  const auto points = drift_points(stages);
  all.step.insert(all.step.end(), points.step.begin(), points.step.end());
  all.since_learnt.insert(all.since_learnt.end(), points.since_learnt.begin(), points.since_learnt.end());
  return {{"run", folder}, {"stages", list}, {"drift", drift_json(points)}};
}

// ---- as text, from the same JSON ---------------------------------------------------------------------------

std::string shown_number(const json& value) {
  return value.is_null() ? "-" : number(value.get<double>());
}

std::string shown_naming(const json& naming) {
  if (naming.is_null()) return "-";
  return fmt::format("{:.0f} % ({:.0f})", 100 * naming["accuracy"].get<double>(), 100 * naming["chance"].get<double>());
}

// The head that names stages best, with its place.
std::string best_head(const json& stage) {
  const json* best = nullptr;
  for (const auto& head : stage["heads"])
    if (!head["naming_stages"].is_null() &&
        (!best || head["naming_stages"]["accuracy"] > (*best)["naming_stages"]["accuracy"]))
      best = &head;
  if (!best) return "-";
  return fmt::format("{} in layer {}, head {}", shown_naming((*best)["naming_stages"]), (*best)["layer"].get<int64_t>(),
                     (*best)["head"].get<int64_t>());
}

void print_run(const json& run) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "samples", "skills apart", "stages apart", "skill named", "stage named", "heads kept", "best head"}};
  for (const auto& stage : run["stages"]) {
    const auto at = stage["stage"].get<int64_t>();
    const bool heads = stage.contains("heads");
    rows.push_back({at == 0 ? "base" : std::to_string(at), std::to_string(stage["samples"].get<size_t>()),
                    shown_number(stage["separation_skills"]), shown_number(stage["separation_stages"]),
                    shown_naming(stage["naming_skills"]), shown_naming(stage["naming_stages"]),
                    heads ? shown_naming(stage["naming_stages_heads_kept"]) : "-", heads ? best_head(stage) : "-"});
  }
  std::cout << printable(run["run"].get<std::string>()) << "\n\n" << text_table(rows) << "\n";
}

void print_drift(const json& drift) {
  std::vector<std::vector<std::string>> rows = {{"drift and forgetting", "points", "Pearson", "Spearman"}};
  const auto with_interval = [](const json& entry, const std::string& name) {
    const auto& interval = entry[name + "_interval"];
    if (interval.is_null()) return shown_number(entry[name]);
    return fmt::format("{:.2f} [{:.2f}, {:.2f}]", entry[name].get<double>(), interval[0].get<double>(),
                       interval[1].get<double>());
  };
  for (const auto& [key, title] : {std::pair("step", "between stages"), {"since_learnt", "since it was learnt"}})
    rows.push_back({title, std::to_string(drift[key]["points"].get<int>()), with_interval(drift[key], "pearson"),
                    with_interval(drift[key], "spearman")});
  std::cout << text_table(rows)
            << "apart: mean distance of group means over that of samples to their own. named: held-out samples whose "
               "group\nGaussian moments name (in brackets: always the largest group). drift: Delta of the forgetting "
               "theorem, a point a\nskill, task and pair of stages; forgetting: how much more often it fails. "
               "Intervals: 95 %, points resampled.\n";
}

void run_premises(const std::vector<std::string>& paths, const Common& common) {
  json runs = json::array();
  DriftPoints all;
  for (const auto& path : paths)
    for (const auto& folder : method_folders(path)) runs.push_back(run_premise(folder, all));
  const json out = {{"runs", runs}, {"drift", drift_json(all)}};
  if (common.json) return print_json(out);
  for (const auto& run : runs) print_run(run);
  print_drift(out["drift"]);
}

}  // namespace

void add_premise_command(CLI::App& app, Common& common) {
  auto* command =
      app.add_subcommand("premise", "whether spectra tell skills and stages apart, and drift tells forgetting");
  auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("RUN", *paths, "folders of runs, or of their methods")->required();
  command->callback([paths, &common] { run_premises(*paths, common); });
}

}  // namespace asr
