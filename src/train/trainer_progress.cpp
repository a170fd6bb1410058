// What a run says while it goes on: scores after a stage, the time that is left, and the event file.
#include <algorithm>
#include <cmath>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "train/announce.h"
#include "train/trainer.h"

namespace asr {

std::vector<std::string> Trainer::task_names() const {
  std::vector<std::string> out;
  for (const size_t task : order_) out.push_back(data_.stream().tasks()[task].name);
  return out;
}

int64_t Trainer::trained_numbers() const {
  int64_t out = 0;
  for (const auto& [name, tensor] : parameters_) out += tensor.numel();
  return out;
}

void Trainer::start_event_log() {
  const auto& targets = config_.run.report_to;
  if (!team_.leads() || std::find(targets.begin(), targets.end(), "tensorboard") == targets.end()) return;
  events_.emplace(key_.folder, read_file(log_path()), task_names());
}

int64_t Trainer::answers_after(int stage) const {
  const auto& stream = data_.stream();
  const bool all = stage == 0 || methods_[0]->joint();
  int64_t out = 0;
  for (size_t i = 0; i < order_.size() && (all || i < static_cast<size_t>(stage)); ++i) {
    out += stream.size(order_[i], config_.run.scored_split());
    if (!all && stream.tasks()[order_[i]].novel) out += stream.size(order_[i], DataSplit::novel);
  }
  return out;
}

// Steps, answers and the passes after a stage, each as fast as so far. The passes of a first stage are not known before
// it ends.
double Trainer::seconds_left() const {
  if (at_.global_step == 0) return NAN;
  const double trained = at_.train_seconds + (training_ ? now() - start_seconds_ : 0);
  double out = trained / static_cast<double>(at_.global_step) *
               static_cast<double>(std::max<int64_t>(0, total_steps_ - at_.global_step));
  const auto evaluated = static_cast<int>(at_.rows.size()) - 1;
  double seconds = answer_seconds_;
  int64_t answered = answered_, left = 0;
  for (int stage = 0; stage <= stages(); ++stage) {
    if (stage > evaluated) left += answers_after(stage);
    if (answered_ == 0 && stage <= evaluated) answered += answers_after(stage);
  }
  if (answered_ == 0) seconds = at_.eval_seconds;  // resumed, and nothing answered since
  if (answered > 0) out += seconds / static_cast<double>(answered) * static_cast<double>(left);
  if (evaluated > 0) out += at_.finish_seconds / evaluated * (stages() - evaluated);
  return out;
}

double Trainer::mean_score() const {
  double sum = 0;
  for (const double value : at_.rows.back()) sum += value;
  return sum / static_cast<double>(at_.rows.back().size());
}

void Trainer::log_zero_shot() {
  log({{"stage", 0}, {"scores", at_.rows.back()}, {"AP", mean_score()}});
}

void Trainer::say_scores() const {
  if (!team_.leads()) return;
  const auto names = task_names();
  const auto where = at_.stage == 0 ? std::string("zero-shot")
                                    : cat(at_.stage, "/", stages(), " ",
                                          methods_[0]->joint() ? std::string("all tasks")
                                                               : printable(names[static_cast<size_t>(at_.stage) - 1]));
  const double left = seconds_left();
  log_info(cat(key_.folder.substr(key_.folder.rfind('/') + 1), " ", where, ": ", score_row(names, at_.rows.back()),
               at_.stage > 0 && at_.stage < stages() ? cat("; run ", human_duration(left), " left") : std::string(),
               " (", utc_time(), ")"));
}

}  // namespace asr
