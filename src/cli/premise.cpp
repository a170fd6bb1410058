// asr premise RUN...: do spectra tell skills and stages apart, and does their drift go with forgetting? From the
// analysis files of runs (docs/maths.md, "The premise").
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/drift_points.h"
#include "spectral/naming.h"

namespace asr {
namespace {

using nlohmann::json;

json naming_json(const Naming& naming) {
  if (naming.tested == 0) return json();
  return {{"accuracy", naming.accuracy}, {"chance", naming.chance}, {"tested", naming.tested}};
}

// What is said of a head, with its place among those tapped.
json with_place(json entry, int64_t head, int64_t layer_heads) {
  entry["layer"] = head / layer_heads;
  entry["head"] = head % layer_heads;
  return entry;
}

json heads_json(const AnalysisSamples& samples) {
  json out = json::array();
  for (int64_t head = 0; head < samples.head_count(); ++head) {
    const auto rows = samples.of_head(head);
    json entry = {{"separation_skills", finite_or_null(separation(rows, samples.skill))},
                  {"separation_stages", finite_or_null(separation(rows, samples.task))},
                  {"naming_stages", naming_json(naming_accuracy(rows, samples.task))}};
    out.push_back(with_place(std::move(entry), head, samples.layer_heads));
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
  out["naming_stages_heads_kept"] = naming_json(naming_accuracy(samples.heads, samples.task, samples.head_count()));
  return out;
}

json interval_json(const Interval& interval) {
  if (!interval.known()) return json();
  return {interval.low, interval.high};
}

json correlation_json(const PairedValues& points) {
  const auto found = correlation_of(points);
  return {{"points", found.n},
          {"pearson", finite_or_null(found.pearson)},
          {"pearson_interval", interval_json(found.pearson_interval)},
          {"spearman", finite_or_null(found.spearman)},
          {"spearman_interval", interval_json(found.spearman_interval)}};
}

json points_json(const DriftPoints& points, int64_t layer_heads) {
  json out = correlation_json(points.averaged);
  if (points.heads.empty()) return out;
  json heads = json::array();
  for (size_t head = 0; head < points.heads.size(); ++head)
    heads.push_back(with_place(correlation_json(points.heads[head]), static_cast<int64_t>(head), layer_heads));
  out["heads"] = std::move(heads);
  return out;
}

json drift_json(const RunDrift& drift) {
  return {{"step", points_json(drift.step, drift.layer_heads)},
          {"since_learnt", points_json(drift.since_learnt, drift.layer_heads)}};
}

// The base first where it was analysed; what drifts is counted from the first stage on.
json run_premise(const std::string& folder, std::vector<RunDrift>& all) {
  std::vector<StageSamples> stages;
  json list = json::array();
  const auto path = [&](int64_t stage) { return fmt::format("{}/stages/{:02}/analysis.safetensors", folder, stage); };
  if (path_exists(path(0))) list.push_back(stage_premise(read_stage_samples(path(0), 0)));
  for (const int64_t stage : stages_in(folder)) {
    stages.push_back(read_stage_samples(path(stage), stage));
    list.push_back(stage_premise(stages.back()));
  }
  all.push_back(drift_points(stages));
  return {{"run", folder}, {"stages", list}, {"drift", drift_json(all.back())}};
}

// ---- as text, from the same JSON ---------------------------------------------------------------------------

std::string shown_number(const json& value) {
  return value.is_null() ? "-" : number(value.get<double>());
}

std::string shown_naming(const json& naming) {
  if (naming.is_null()) return "-";
  return fmt::format("{:.0f} % ({:.0f})", 100 * naming["accuracy"].get<double>(), 100 * naming["chance"].get<double>());
}

std::string shown_stage(const json& stage) {
  const auto at = stage["stage"].get<int64_t>();
  return at == 0 ? "base" : std::to_string(at);
}

std::string shown_place(const json& head) {
  return fmt::format("layer {}, head {}", head["layer"].get<int64_t>(), head["head"].get<int64_t>());
}

// The head that names stages best, with its place.
std::string best_head(const json& stage) {
  const json* best = nullptr;
  for (const auto& head : stage["heads"])
    if (!head["naming_stages"].is_null() &&
        (!best || head["naming_stages"]["accuracy"] > (*best)["naming_stages"]["accuracy"]))
      best = &head;
  if (!best) return "-";
  return fmt::format("{} in {}", shown_naming((*best)["naming_stages"]), shown_place(*best));
}

// What is known of one number over all heads. The best has the largest.
struct HeadValues {
  std::vector<double> sorted;
  const json* best = nullptr;

  double median() const {
    const size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  std::string shown_range() const { return fmt::format("{:.2f} to {:.2f}", sorted.front(), sorted.back()); }
};

HeadValues head_values(const json& heads, const std::string& key) {
  HeadValues out;
  double largest = 0;
  for (const auto& head : heads) {
    if (head[key].is_null()) continue;
    const auto value = head[key].get<double>();
    out.sorted.push_back(value);
    if (out.best && value <= largest) continue;
    out.best = &head;
    largest = value;
  }
  std::sort(out.sorted.begin(), out.sorted.end());
  return out;
}

// Separation of single heads, where a run kept them.
void print_heads(const json& stages) {
  std::vector<std::vector<std::string>> rows = {{"heads", "skills apart", "best", "stages apart", "best"}};
  for (const auto& stage : stages) {
    if (!stage.contains("heads")) continue;
    std::vector<std::string> row = {shown_stage(stage)};
    for (const char* key : {"separation_skills", "separation_stages"}) {
      const auto values = head_values(stage["heads"], key);
      row.push_back(values.best ? fmt::format("{:.2f} ({})", values.median(), values.shown_range()) : "-");
      row.push_back(values.best ? shown_place(*values.best) : "-");
    }
    rows.push_back(std::move(row));
  }
  if (rows.size() > 1) std::cout << text_table(rows) << "\n";
}

void print_run(const json& run) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "samples", "skills apart", "stages apart", "skill named", "stage named", "heads kept", "best head"}};
  for (const auto& stage : run["stages"]) {
    const bool heads = stage.contains("heads");
    rows.push_back({shown_stage(stage), std::to_string(stage["samples"].get<size_t>()),
                    shown_number(stage["separation_skills"]), shown_number(stage["separation_stages"]),
                    shown_naming(stage["naming_skills"]), shown_naming(stage["naming_stages"]),
                    heads ? shown_naming(stage["naming_stages_heads_kept"]) : "-", heads ? best_head(stage) : "-"});
  }
  std::cout << printable(run["run"].get<std::string>()) << "\n\n" << text_table(rows) << "\n";
  print_heads(run["stages"]);
}

std::string shown_correlation(const json& entry, const std::string& name) {
  const auto& interval = entry[name + "_interval"];
  if (interval.is_null()) return shown_number(entry[name]);
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", entry[name].get<double>(), interval[0].get<double>(),
                     interval[1].get<double>());
}

std::vector<std::string> correlation_row(const std::string& title, const json& entry) {
  return {title, std::to_string(entry["points"].get<int>()), shown_correlation(entry, "pearson"),
          shown_correlation(entry, "spearman")};
}

// A head with Pearson's coefficient has Spearman's, too.
void add_head_rows(const json& heads, std::vector<std::vector<std::string>>& rows) {
  const auto pearson = head_values(heads, "pearson"), spearman = head_values(heads, "spearman");
  if (!pearson.best) return;
  rows.push_back(correlation_row("  best head: " + shown_place(*pearson.best), *pearson.best));
  rows.push_back({fmt::format("  median of {} heads", pearson.sorted.size()), "",
                  fmt::format("{:.2f}", pearson.median()), fmt::format("{:.2f}", spearman.median())});
  rows.push_back({"  range of heads", "", pearson.shown_range(), spearman.shown_range()});
}

void print_drift(const json& drift) {
  std::vector<std::vector<std::string>> rows = {{"drift and forgetting", "points", "Pearson", "Spearman"}};
  for (const auto& [key, title] : {std::pair("step", "between stages"), {"since_learnt", "since it was learnt"}}) {
    rows.push_back(correlation_row(title, drift[key]));
    if (drift[key].contains("heads")) add_head_rows(drift[key]["heads"], rows);
  }
  std::cout << text_table(rows)
            << "apart: mean distance of group means over that of samples to their own. named: held-out samples whose "
               "group\nGaussian moments name (in brackets: always the largest group). drift: Delta of the forgetting "
               "theorem, a point a\nskill, task and pair of stages; forgetting: how much more often it fails. "
               "Intervals: 95 %, points resampled. heads:\nevery layer and head by itself, apart as median (least to "
               "largest); the best is picked after looking, by Pearson.\n";
}

void run_premises(const std::vector<std::string>& paths, const Common& common) {
  json runs = json::array();
  std::vector<RunDrift> all;
  for (const auto& path : paths)
    for (const auto& folder : method_folders(path)) runs.push_back(run_premise(folder, all));
  const json out = {{"runs", runs}, {"drift", drift_json(pooled_drift(all))}};
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
