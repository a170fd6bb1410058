// Evaluation after a stage, and the files that a run leaves for people and for `asr compare`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "backbones/adapter_file.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folders.h"
#include "io/analysis_file.h"
#include "io/csv.h"
#include "metrics/named_scores.h"
#include "metrics/skill_forgetting.h"
#include "skills/taxonomy.h"
#include "spectral/diagnostics.h"
#include "streams/manifest.h"
#include "train/kept_state.h"
#include "train/trainer.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr double kNotAsked = -1;  // a task without novel compositions

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
    for (size_t i = 0; i < task.set->texts.size(); ++i) {
      if (task.set->texts[i].part.empty()) continue;
      auto& entry = parts[task.set->texts[i].part];
      ++entry.samples, entry.sum += task.score->per_sample[i];
    }
  json out = json::object();
  for (const auto& [name, entry] : parts)
    out[name] = {{"accuracy", 100 * entry.accuracy()}, {"samples", entry.samples}};
  return out;
}

json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json();
}

}  // namespace

void Trainer::log(json line) {
  if (!team_.leads()) return;
  line["time"] = utc_time();
  const auto text = line.dump() + "\n";
  std::ofstream file(log_path(), std::ios::app);
  file << text << std::flush;
  if (!file) fail_system(log_path(), ": cannot be written to; is the disk full?");
  log_bytes_ += static_cast<int64_t>(text.size());
  log_hash_.update(text);
  if (events_) events_->add(line);
}

void Trainer::log_step(const Phase& phase, double loss, double rate, double norm, const Terms& terms) {
  const int64_t total = total_steps_;
  const double seen = static_cast<double>(at_.step * rows_a_step(at_.stage) * config_.run.accumulation);
  const double elapsed = at_.train_seconds + now() - start_seconds_;
  json line = {{"current_steps", at_.global_step},
               {"total_steps", total},
               {"loss", loss},
               {"lr", rate},
               {"epoch", seen / static_cast<double>(stage_data(false).size())},
               {"percentage", 100.0 * static_cast<double>(at_.global_step) / static_cast<double>(total)},
               {"elapsed_time", elapsed},
               {"remaining_time", number_or_null(seconds_left())},
               {"stage", at_.stage},
               {"grad_norm", norm}};
  if (!phase.name.empty()) line["group"] = phase.name;
  for (const auto& [name, value] : terms) line[name] = value.item<double>();
  log(line);
}

void Trainer::evaluate() {
  const double start = now();
  const bool known_before = at_.stage == 0 && !data_.zero_shot.empty();
  const bool all = at_.stage == 0 || methods_[0]->joint();
  const size_t seen = all ? order_.size() : static_cast<size_t>(at_.stage);
  std::vector<TaskScore> scores;
  std::vector<AnalysedTask> analysed;
  std::vector<double> row;
  for (size_t b = 0; b < seen; ++b) {
    const auto& task = data_.stream().tasks()[order_[b]];
    const auto& set = data_.get(order_[b], config_.run.scored_split());
    // Before any training every adapter is the identity, so one evaluation serves all runs of a process.
    auto* known = at_.stage == 0 ? &data_.zero_shot[{order_[b], head_.has_value()}] : nullptr;
    if (known && !known->texts.empty())
      scores.push_back(*known);
    else
      scores.push_back(
          evaluate_task(model_, head_ ? &*head_ : nullptr, set, task.metric, config_.run.eval_batch, team_));
    if (known) *known = scores.back();
    row.push_back(scores.back().score);
    if (team_.leads())
      files_->stage(fmt::format("predictions/stage-{:02d}-task-{:02d}.jsonl", at_.stage, b + 1),
                    predictions_text(set, scores.back()));
    if (!all) evaluate_novel(b, task);
  }
  for (size_t b = 0; b < seen; ++b)
    analysed.push_back(
        {data_.stream().tasks()[order_[b]].name, &data_.get(order_[b], config_.run.scored_split()), &scores[b]});
  at_.rows.resize(static_cast<size_t>(at_.stage));
  at_.rows.push_back(row);
  if (at_.stage > 0) {
    const auto folder = stage_folder(key_.folder, at_.stage);
    if (team_.leads()) make_folders(folder);
    write_memory(folder);
    write_analysis(folder + "/analysis.safetensors", model_, analysed, analysis_memory_, config_.run.analysis_samples,
                   config_.run.overlays, config_.run.tap_layers, team_);
    log_skills(analysed);
  } else {
    log_zero_shot();
  }
  at_.eval_seconds += now() - start;
  if (!known_before) {
    answered_ += answers_after(at_.stage);
    answer_seconds_ += now() - start;
  }
  write_results(false);
  say_scores();
}

// Not with `analysis.memory: no` and a method that measures nothing.
void Trainer::write_memory(const std::string& folder) {
  if (team_.leads() && !analysis_memory_.prototypes.empty())
    save_memory(folder + "/memory.safetensors", analysis_memory_);
}

void Trainer::evaluate_novel(size_t position, const StreamTask& task) {
  double result = kNotAsked;
  if (task.novel) {
    const auto& set = data_.get(order_[position], DataSplit::novel);
    const auto score =
        evaluate_task(model_, head_ ? &*head_ : nullptr, set, task.metric, config_.run.eval_batch, team_);
    if (team_.leads())
      files_->stage(fmt::format("predictions/novel-stage-{:02d}-task-{:02d}.jsonl", at_.stage, position + 1),
                    predictions_text(set, score));
    result = score.score;
  }
  at_.novel.resize(static_cast<size_t>(at_.stage));
  if (position == 0) at_.novel.back().clear();
  at_.novel.back().push_back(result);
}

namespace {

SkillForgetting forgetting_of(const std::vector<std::optional<double>>& history) {
  std::vector<double> accuracy;
  for (const auto& value : history) accuracy.push_back(value.value_or(NAN));
  return skill_forgetting(accuracy);
}

}  // namespace

void Trainer::log_skills(const std::vector<AnalysedTask>& analysed) {
  json accuracy = json::object(), best = json::object(), step = json::object();
  for (const auto& [skill, score] : skill_scores(analysed)) {
    const auto& name = skill_names()[static_cast<size_t>(skill)];
    auto& history = at_.skills[name];
    history.resize(static_cast<size_t>(at_.stage) - 1);
    history.push_back(score.accuracy() * 100);
    accuracy[name] = *history.back();
    const auto forgetting = forgetting_of(history);
    if (std::isnan(forgetting.best)) continue;
    best[name] = forgetting.best;
    step[name] = forgetting.step;
  }
  json line = {{"stage", at_.stage},         {"scores", at_.rows.back()}, {"AP", mean_score()},
               {"skill_accuracy", accuracy}, {"skill_forgetting", best},  {"skill_forgetting_step", step}};
  const auto before = stage_folder(key_.folder, at_.stage - 1) + "/analysis.safetensors",
             after = stage_folder(key_.folder, at_.stage) + "/analysis.safetensors";
  // Where somebody removed the stage before, that was said when the run was resumed.
  if (at_.stage > 1 && team_.leads() && path_exists(before)) line["skill_drift"] = skill_drift(before, after);
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

void Trainer::write_results(bool complete) {
  if (!team_.leads()) return;
  std::vector<std::string> tasks;
  for (const size_t task : order_) tasks.push_back(data_.stream().tasks()[task].name);
  const bool joint = methods_[0]->joint();
  files_->stage("matrix.csv", matrix_text(tasks, at_.rows, 0, joint));
  const auto& known = data_.stream().tasks();
  const bool composes = std::any_of(known.begin(), known.end(), [](const StreamTask& t) { return t.novel; });
  const auto novel = composes ? at_.novel : std::vector<std::vector<double>>();
  if (!novel.empty()) files_->stage("matrix_novel.csv", matrix_text(tasks, novel, 1, false));
  int64_t adapter = 0, stored = 0;
  for (const auto& [name, tensor] : parameters_) adapter += tensor.numel();
  bool replay_free = true;
  for (const auto& method : methods_) replay_free = replay_free && method->keeps() == Keeps::statistics;
  for (const auto& item : listed_items(key_.composition, methods_)) stored += item.bytes;
  json metrics = {
      {"label", key_.label},
      {"method", key_.composition},
      {"seed", key_.seed},
      {"order", key_.order},
      {"stream", data_.stream().name()},
      {"held_out", held_out_group(config_.run.stream)},
      {"backbone", model_.name()},
      {"one_stage", joint},
      {"replay_free", replay_free},
      {"tasks", tasks},
      {"scores", scores_of(tasks, at_.rows, novel, joint)},
      {"cost",
       {{"step_ms",
         number_or_null(at_.global_step > 0 ? 1000 * at_.train_seconds / static_cast<double>(at_.global_step) : NAN)},
        {"steps", at_.global_step},
        {"train_seconds", at_.train_seconds},
        {"finish_seconds", at_.finish_seconds},
        {"eval_seconds", at_.eval_seconds},
        {"processes", team_.size()},
        {"stored_bytes", stored},
        {"adapter_parameters", adapter}}},
      {"skills", skill_table(at_.skills)},
      {"complete", complete}};
  if (complete) {
    write_memory(key_.folder);
    const auto& run = config_.run;
    save_adapter(key_.folder + "/adapter", parameters_, {run.lora_rank, run.lora_alpha, run.lora_dropout, run.model});
    files_->adopt({"adapter/adapter_config.json", "adapter/adapter_model.safetensors"});
    files_->cover_whole("log.jsonl", Sha256(log_hash_).hex());
  }
  // Last: a run that is called complete is not touched again, so nothing of it may be missing.
  if (!at_.changes.empty()) metrics["changes"] = at_.changes;
  files_->stage("metrics.json", metrics.dump(1) + "\n");
  if (!complete) return;  // the next checkpoint writes them
  files_->commit();
  files_->save();
}

}  // namespace asr
