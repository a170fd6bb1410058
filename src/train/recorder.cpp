// The log, the files of a run and what it says while it goes on: scores after a stage, the time that is left.
#include "train/recorder.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "train/announce.h"
#include "train/run_folder.h"
#include "train/run_identity.h"

namespace asr {
namespace {

using nlohmann::json;

json known_number(double value) {
  return std::isfinite(value) ? json(value) : json();
}

}  // namespace

void Recorder::open_files() {
  files_.emplace(parts_.key.folder);
  if (!files_->exist()) files_->adopt(text_files_of_run(parts_.key.folder));
  files_->settle();
  files_->stage("config.yaml", with_checksum_line(yaml_text(parts_.config.manifest())));
  files_->commit();
}

void Recorder::training_begins() {
  start_seconds_ = now();
  training_ = true;
}

void Recorder::training_pauses() {
  parts_.at.train_seconds += now() - start_seconds_;
  training_ = false;
}

void Recorder::log(json line) {
  if (!parts_.team.leads()) return;
  line["time"] = utc_time();
  const auto text = line.dump() + "\n";
  std::ofstream file(log_path(), std::ios::app);
  file << text << std::flush;
  if (!file) fail_system(log_path(), ": cannot be written to; is the disk full?");
  log_bytes_ += static_cast<int64_t>(text.size());
  log_hash_.update(text);
  if (events_) events_->add(line);
}

void Recorder::log_step(const Phase& phase, const Loop::Done& done) {
  const int64_t total = total_steps;
  const double seen =
      static_cast<double>(parts_.at.step * parts_.config.run.accumulation) * parts_.rows_a_pass(parts_.at.stage);
  const double elapsed = parts_.at.train_seconds + now() - start_seconds_;
  json line = {{"current_steps", parts_.at.global_step},
               {"total_steps", total},
               {"loss", done.loss},
               {"lr", done.rate},
               {"epoch", seen / static_cast<double>(parts_.stage_data(false).size())},
               {"percentage", 100.0 * static_cast<double>(parts_.at.global_step) / static_cast<double>(total)},
               {"elapsed_time", elapsed},
               {"remaining_time", known_number(seconds_left())},
               {"stage", parts_.at.stage},
               {"grad_norm", done.norm}};
  if (parts_.team.size() > 1) line["communication_time"] = done.waited;
  if (!phase.name.empty()) line["group"] = phase.name;
  for (const auto& [name, value] : done.terms) line[name] = value.item<double>();
  log(line);
}

// Lines that were logged after the checkpoint will be logged again.
void Recorder::restore_log(const nlohmann::json& state) {
  const auto text = path_exists(log_path()) ? read_file(log_path()) : std::string();
  const auto bytes = state.at("log_bytes").get<size_t>();
  if (text.size() >= bytes) return start_log(text.substr(0, bytes));
  const auto left = whole_log_lines(text, parts_.at.global_step);
  start_log(text.substr(0, left.bytes));
  log({{"stage", parts_.at.stage}, {"note", left.missing}});
}

// The list covers what is left of the log before the rest goes.
void Recorder::start_log(const std::string& text) {
  log_bytes_ = static_cast<int64_t>(text.size());
  log_hash_ = Sha256();
  log_hash_.update(text);
  files_->cover_beginning("log.jsonl", log_bytes_, sha256_of(text));
  files_->save();
  write_file_atomically(log_path(), text);
}

void Recorder::start_event_log() {
  const auto& targets = parts_.config.run.report_to;
  if (!parts_.team.leads() || std::find(targets.begin(), targets.end(), "tensorboard") == targets.end()) return;
  events_.emplace(parts_.key.folder, read_file(log_path()), parts_.task_names());
}

// Steps, answers and the passes after a stage, each as fast as so far. The passes of a first stage are not known before
// it ends.
double Recorder::seconds_left() const {
  if (parts_.at.global_step == 0) return NAN;
  const double trained = parts_.at.train_seconds + (training_ ? now() - start_seconds_ : 0);
  double out = trained / static_cast<double>(parts_.at.global_step) *
               static_cast<double>(std::max<int64_t>(0, total_steps - parts_.at.global_step));
  const auto evaluated = static_cast<int>(parts_.at.rows.size()) - 1;
  double seconds = answer_seconds_;
  int64_t answered = answered_, left = 0;
  for (int stage = 0; stage <= parts_.stages(); ++stage) {
    if (stage > evaluated) left += parts_.answers_after(stage);
    if (answered_ == 0 && stage <= evaluated) answered += parts_.answers_after(stage);
  }
  if (answered_ == 0) seconds = parts_.at.eval_seconds;  // resumed, and nothing answered since
  if (answered > 0) out += seconds / static_cast<double>(answered) * static_cast<double>(left);
  const double around = parts_.at.prepare_seconds + parts_.at.finish_seconds;
  if (evaluated > 0) out += around / evaluated * (parts_.stages() - evaluated);
  return out;
}

double Recorder::mean_score() const {
  double sum = 0;
  for (const double value : parts_.at.rows.back()) sum += value;
  return sum / static_cast<double>(parts_.at.rows.back().size());
}

void Recorder::say_scores() const {
  if (!parts_.team.leads()) return;
  const auto names = parts_.task_names();
  const auto where =
      parts_.at.stage == 0
          ? std::string("zero-shot")
          : cat(parts_.at.stage, "/", parts_.stages(), " ",
                parts_.joint() ? std::string("all tasks") : printable(names[static_cast<size_t>(parts_.at.stage) - 1]));
  const double left = seconds_left();
  log_info(cat(parts_.key.folder.substr(parts_.key.folder.rfind('/') + 1), " ", where, ": ",
               score_row(names, parts_.at.rows.back()),
               parts_.at.stage > 0 && parts_.at.stage < parts_.stages() ? cat("; run ", human_duration(left), " left")
                                                                        : std::string(),
               " (", utc_time(), ")"));
}

}  // namespace asr
