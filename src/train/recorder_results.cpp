// Evaluation after a stage, and the files that a run leaves for people and for `asr compare`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/folders.h"
#include "io/analysis_file.h"
#include "io/csv.h"
#include "metrics/answers_outside.h"
#include "metrics/diagnostics.h"
#include "metrics/named_scores.h"
#include "metrics/skill_forgetting.h"
#include "skills/taxonomy.h"
#include "streams/manifest.h"
#include "train/kept_state.h"
#include "train/recorder.h"
#include "train/run_adapter.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr double kNotAsked = -1;  // a task without novel compositions, or without wrong answers

std::string stage_folder(const std::string& folder, int stage) {
  return fmt::format("{}/stages/{:02d}", folder, stage);
}

// JSD of radial and angular spectra per skill between two analysis files, on the tasks that both measured.
json skill_drift(const std::string& before, const std::string& after) {
  const auto a = read_analysis_file(before), b = read_analysis_file(after);
  json out = json::object();
  for (const int64_t skill : a.skills()) {
    const auto tasks = shared_tasks(a, b, skill);
    if (tasks.empty()) continue;
    const auto old = a.moments(skill, tasks), now = b.moments(skill, tasks);
    out[a.skill_name(skill)] = spectral_drift(old.radial, now.radial, old.angular, now.angular);
  }
  return out;
}

// Accuracy over all seen tasks by part of a long-tailed stream; empty where samples have none.
json part_accuracy(const std::vector<AnalysedTask>& analysed) {
  std::map<std::string, SkillScore> parts;
  for (const auto& task : analysed)
    for (size_t i = 0; i < task.set->infos().size(); ++i) {
      if (task.set->infos()[i].part.empty()) continue;
      auto& entry = parts[task.set->infos()[i].part];
      ++entry.samples;
      entry.sum += task.score->per_sample[i];
    }
  json out = json::object();
  for (const auto& [name, entry] : parts)
    out[name] = {{"accuracy", 100 * entry.accuracy()}, {"samples", entry.samples}};
  return out;
}

// Slots, or stages where a method chooses among those within one slot.
std::vector<std::string> routing_columns(const std::vector<AnalysedTask>& tasks, const RunParts& parts) {
  const auto slots = parts.bank.slots();
  bool among_slots = true;
  for (const auto& task : tasks)
    for (const auto& name : task.score->slots)
      among_slots = among_slots && (name == "base" || std::find(slots.begin(), slots.end(), name) != slots.end());
  if (among_slots) return slots;
  std::vector<std::string> out;
  for (int stage = 1; stage <= parts.at.stage; ++stage) out.push_back(fmt::format("stage-{}", stage));
  return out;
}

// How many samples of each task each slot answered, tasks below each other in the order trained; empty where no method
// chose.
std::string routing_text(const std::vector<AnalysedTask>& tasks, const std::vector<std::string>& slots) {
  std::string out = "task";
  for (const auto& slot : slots) out += "," + slot;
  out += ",base\n";
  bool chosen = false;
  for (const auto& task : tasks) {
    std::map<std::string, int64_t> counts;
    for (const auto& slot : task.score->slots) ++counts[slot];
    chosen = chosen || !counts.empty();
    out += csv_field(task.name);
    for (const auto& slot : slots) out += fmt::format(",{}", counts[slot]);
    out += fmt::format(",{}\n", counts["base"]);
  }
  return chosen ? out : "";
}

json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json();
}

}  // namespace

void Recorder::evaluate() {
  const double start = now();
  const bool known_before = parts_.at.stage == 0 && !parts_.data.zero_shot.empty();
  const bool all = parts_.at.stage == 0 || parts_.joint();
  const size_t seen = all ? parts_.order.size() : static_cast<size_t>(parts_.at.stage);
  std::vector<TaskScore> scores;
  std::vector<AnalysedTask> analysed;
  std::vector<double> row, outside;
  for (size_t b = 0; b < seen; ++b) {
    const auto& task = parts_.data.stream().tasks()[parts_.order[b]];
    const auto& set = parts_.data.get_of_stage(parts_.order[b], parts_.config.run.scored_split(),
                                               parts_.joint() ? 0 : static_cast<int>(b) + 1);
    // Before any training every adapter is the identity, so one evaluation serves all runs of a process.
    auto* known = parts_.at.stage == 0 && !parts_.own_objective
                      ? &parts_.data.zero_shot[{parts_.order[b], parts_.config.run.head}]
                      : nullptr;
    if (known && !known->texts.empty())
      scores.push_back(*known);
    else
      scores.push_back(score(set, parts_.order[b]));
    if (known) *known = scores.back();
    row.push_back(scores.back().score);
    outside.push_back(scores.back().outside);
    if (parts_.team.leads())
      files_->stage(fmt::format("predictions/stage-{:02d}-task-{:02d}.jsonl", parts_.at.stage, b + 1),
                    predictions_text(set, scores.back()));
    if (!all) evaluate_novel(b, task);
  }
  for (size_t b = 0; b < seen; ++b)
    analysed.push_back({parts_.data.stream().tasks()[parts_.order[b]].name,
                        &parts_.data.get(parts_.order[b], parts_.config.run.scored_split()), &scores[b]});
  parts_.at.rows.resize(static_cast<size_t>(parts_.at.stage));
  parts_.at.rows.push_back(row);
  const auto columns = routing_columns(analysed, parts_);
  if (const auto text = routing_text(analysed, columns); parts_.team.leads() && !text.empty())
    files_->stage("routing.csv", text);
  parts_.at.outside.resize(static_cast<size_t>(parts_.at.stage));
  parts_.at.outside.push_back(outside);
  if (parts_.at.stage > 0) {
    write_stage_analysis(analysed);
    log_skills(analysed);
  } else {
    if (parts_.config.run.analysis_premise == Switch::yes) write_stage_analysis(analysed);
    log({{"stage", 0}, {"scores", parts_.at.rows.back()}, {"AP", mean_score()}});
  }
  parts_.at.eval_seconds += now() - start;
  if (!known_before) {
    answered_ += parts_.answers_after(parts_.at.stage);
    answer_seconds_ += now() - start;
  }
  write_results(false);
  say_scores();
}

TaskScore Recorder::score(const SampleSet& set, size_t task) const {
  const auto& metric = parts_.data.stream().tasks()[task].metric;
  const auto merge = parts_.config.run.answer_merge;
  const bool merged = merge == AnswerMerge::yes || (merge == AnswerMerge::automatic && parts_.model.device().is_cuda());
  Answerer who{parts_.model, *parts_.objective, parts_.answering()};
  if (merged) who.merged_sites = parts_.bank.sites();
  who.workers = parts_.config.run.workers;
  auto out = evaluate_task(who, set, metric, parts_.config.run.eval_batch, parts_.team);
  if (!parts_.team.leads()) return out;  // who writes it down
  const double outside = outside_share(out.texts, out.per_sample, parts_.data.answers(task));
  if (std::isfinite(outside)) out.outside = outside;
  return out;
}

void Recorder::write_stage_analysis(const std::vector<AnalysedTask>& analysed) {
  const auto& run = parts_.config.run;
  const auto folder = stage_folder(parts_.key.folder, parts_.at.stage);
  if (parts_.team.leads()) make_folders(folder);
  write_memory(folder);
  write_analysis(
      folder + "/analysis.safetensors", {parts_.model, *parts_.objective, parts_.answering()}, analysed,
      {parts_.analysis_memory, run.analysis_samples, run.overlays, run.tap_layers, run.analysis_premise == Switch::yes},
      parts_.team);
}

// Not with `analysis.memory: no` and a method that measures nothing.
void Recorder::write_memory(const std::string& folder) {
  if (parts_.team.leads() && !parts_.analysis_memory.prototypes.empty())
    save_memory(folder + "/memory.safetensors", parts_.analysis_memory);
}

void Recorder::evaluate_novel(size_t position, const StreamTask& task) {
  double result = kNotAsked;
  if (task.novel) {
    const auto& set =
        parts_.data.get_of_stage(parts_.order[position], DataSplit::novel, static_cast<int>(position) + 1);
    const auto result_of_task = score(set, parts_.order[position]);
    if (parts_.team.leads())
      files_->stage(fmt::format("predictions/novel-stage-{:02d}-task-{:02d}.jsonl", parts_.at.stage, position + 1),
                    predictions_text(set, result_of_task));
    result = result_of_task.score;
  }
  parts_.at.novel.resize(static_cast<size_t>(parts_.at.stage));
  if (position == 0) parts_.at.novel.back().clear();
  parts_.at.novel.back().push_back(result);
}

namespace {

SkillForgetting forgetting_of(const std::vector<std::optional<double>>& history) {
  std::vector<double> accuracy;
  for (const auto& value : history) accuracy.push_back(value.value_or(NAN));
  return skill_forgetting(accuracy);
}

}  // namespace

void Recorder::log_skills(const std::vector<AnalysedTask>& analysed) {
  json accuracy = json::object(), best = json::object(), step = json::object();
  for (const auto& [skill, score] : skill_scores(analysed)) {
    const auto& name = skill_names()[static_cast<size_t>(skill)];
    auto& history = parts_.at.skills[name];
    history.resize(static_cast<size_t>(parts_.at.stage) - 1);
    history.push_back(score.accuracy() * 100);
    accuracy[name] = *history.back();
    const auto forgetting = forgetting_of(history);
    if (std::isnan(forgetting.best)) continue;
    best[name] = forgetting.best;
    step[name] = forgetting.step;
  }
  json line = {{"stage", parts_.at.stage},   {"scores", parts_.at.rows.back()}, {"AP", mean_score()},
               {"skill_accuracy", accuracy}, {"skill_forgetting", best},        {"skill_forgetting_step", step}};
  const auto before = stage_folder(parts_.key.folder, parts_.at.stage - 1) + "/analysis.safetensors",
             after = stage_folder(parts_.key.folder, parts_.at.stage) + "/analysis.safetensors";
  // Where somebody removed the stage before, that was said when the run was resumed.
  if (parts_.at.stage > 1 && parts_.team.leads() && path_exists(before))
    line["skill_drift"] = skill_drift(before, after);
  if (auto parts = part_accuracy(analysed); !parts.empty()) line["parts"] = std::move(parts);
  log(line);
}

namespace {

// Rows as `asr matrix` reads them; unseen cells stay empty.
std::string matrix_text(const std::vector<std::string>& tasks, const std::vector<std::vector<double>>& rows, int first,
                        bool joint) {
  std::string out = "stage";
  for (const auto& task : tasks) out += "," + csv_field(task);
  out += "\n";
  for (size_t a = 0; a < rows.size(); ++a) {
    const size_t stage = joint && a > 0 ? tasks.size() : a + static_cast<size_t>(first);
    out += std::to_string(stage);
    for (size_t b = 0; b < tasks.size(); ++b)
      out += b < rows[a].size() && rows[a][b] != kNotAsked ? fmt::format(",{:.10g}", rows[a][b]) : ",";
    out += "\n";
  }
  return out;
}

// `rows` without any zero-shot row; unseen cells are NaN.
ScoreMatrix matrix_of(const std::vector<std::string>& tasks, const std::vector<std::vector<double>>& rows) {
  ScoreMatrix out;
  out.tasks = tasks;
  for (auto row : rows) {
    row.resize(tasks.size(), NAN);
    std::replace(row.begin(), row.end(), kNotAsked, static_cast<double>(NAN));
    out.rows.push_back(std::move(row));
  }
  return out;
}

json scores_of(const std::vector<std::string>& tasks, const std::vector<std::vector<double>>& rows,
               const std::vector<std::vector<double>>& novel, bool joint) {
  auto matrix = matrix_of(tasks, rows);
  if (!rows.empty()) {
    matrix.zero_shot = matrix.rows.front();
    matrix.rows.erase(matrix.rows.begin());
  }
  auto scores = named_scores(matrix, joint);
  if (!novel.empty()) scores.merge(novel_scores(matrix_of(tasks, novel)));
  json out = json::object();
  for (const auto& [name, value] : scores) out[name] = number_or_null(value);
  return out;
}

using Rows = std::vector<std::vector<double>>;

bool composes(const Stream& stream) {
  const auto& tasks = stream.tasks();
  return std::any_of(tasks.begin(), tasks.end(), [](const StreamTask& t) { return t.novel; });
}

json skill_table(const std::map<std::string, std::vector<std::optional<double>>>& skills) {
  json out = json::array();
  for (const auto& [name, history] : skills) {
    json accuracy = json::array();
    for (const auto& value : history) accuracy.push_back(value ? json(*value) : json());
    const auto forgetting = forgetting_of(history);
    out.push_back({{"name", name},
                   {"index", skill_index(name)},
                   {"accuracy", accuracy},
                   {"forgetting_best", number_or_null(forgetting.best)},
                   {"forgetting_step", number_or_null(forgetting.step)},
                   {"forgetting_cumulative", forgetting.cumulative}});
  }
  return out;
}

}  // namespace

json Recorder::metrics(bool complete) const {
  const auto& at = parts_.at;
  const auto tasks = parts_.task_names();
  int64_t stored = 0;
  bool replay_free = true;
  for (const auto& method : parts_.methods) replay_free = replay_free && method->keeps() == Keeps::statistics;
  for (const auto& item : listed_items(parts_)) stored += item.bytes;
  // Over the stream's training data; replayed samples count like others.
  double samples = 0;
  for (const size_t task : parts_.order)
    samples += static_cast<double>(parts_.data.stream().size(task, DataSplit::train));
  const double passes = static_cast<double>(at.samples) / samples;
  const double step_ms = 1000 * (at.train_seconds - at.other_seconds) / static_cast<double>(at.model_steps);
  json out = {{"label", parts_.key.label},
              {"method", parts_.key.composition},
              {"seed", parts_.key.seed},
              {"order", parts_.key.order},
              {"stream", parts_.data.stream().name()},
              {"held_out", held_out_group(parts_.config.run.stream)},
              {"backbone", parts_.model.name()},
              {"one_stage", parts_.joint()},
              {"replay_free", replay_free},
              {"head", parts_.objective->head()},
              {"tasks", tasks},
              {"scores", scores_of(tasks, at.rows, composes(parts_.data.stream()) ? at.novel : Rows(), parts_.joint())},
              {"cost",
               {{"step_ms", number_or_null(at.model_steps > 0 ? step_ms : NAN)},
                {"steps", at.global_step},
                {"prepare_seconds", at.prepare_seconds},
                {"train_seconds", at.train_seconds},
                {"finish_seconds", at.finish_seconds},
                {"eval_seconds", at.eval_seconds},
                {"processes", parts_.team.size()},
                {"stored_bytes", stored},
                {"adapter_parameters", at.most_parameters},
                {"passes", passes}}},
              {"skills", skill_table(at.skills)},
              {"complete", complete}};
  if (!at.changes.empty()) out["changes"] = at.changes;
  return out;
}

void Recorder::write_results(bool complete) {
  if (!parts_.team.leads()) return;
  const auto tasks = parts_.task_names();
  files_->stage("matrix.csv", matrix_text(tasks, parts_.at.rows, 0, parts_.joint()));
  files_->stage("answers_outside.csv", matrix_text(tasks, parts_.at.outside, 0, parts_.joint()));
  if (composes(parts_.data.stream()) && !parts_.at.novel.empty())
    files_->stage("matrix_novel.csv", matrix_text(tasks, parts_.at.novel, 1, false));
  if (complete) {
    write_memory(parts_.key.folder);
    write_adapter();
    files_->cover_whole("log.jsonl", Sha256(log_hash_).hex());
  }
  // Last: a run that is called complete is not touched again, so nothing of it may be missing.
  files_->stage("metrics.json", metrics(complete).dump(1) + "\n");
  if (!complete) return;  // the next checkpoint writes them
  files_->commit();
  files_->save();
}

void Recorder::write_adapter() {
  std::vector<std::string> names;
  for (const auto& name : save_run_adapter(parts_)) names.push_back("adapter/" + name);
  files_->adopt(names);
}

void Recorder::write_kept_state() {
  if (!parts_.team.leads()) return;
  json items = json::array();
  for (const auto& item : listed_items(parts_, ListHashes::yes)) items.push_back(item.to_json());
  files_->stage(fmt::format("stages/{:02d}/kept.json", parts_.at.stage),
                json{{"stage", parts_.at.stage}, {"items", items}}.dump(1) + "\n");
}

}  // namespace asr
