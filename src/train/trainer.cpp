#include "train/trainer.h"

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "base/text.h"
#include "data/drawn_rows.h"
#include "data/walk.h"
#include "train/run_folder.h"

namespace asr {

Trainer::Trainer(const RunConfig& config, const RunKey& key, Backbone& model, Data& data, const Team& team)
    : parts_(config, key, model, data, team), loop_(parts_), recorder_(parts_), checkpoint_(parts_, loop_, recorder_) {
  recorder_.total_steps = parts_.planned_steps();  // here, so that what a method refuses leaves no folder
}

int64_t Trainer::trained_numbers() const {
  int64_t out = 0;
  for (const auto& [name, tensor] : parts_.trained()) out += tensor.numel();
  return out;
}

// Passes that a step makes beside those that train it.
void Trainer::say_costs() const {
  const auto& run = parts_.config.run;
  if (!parts_.team.leads() || !parts_.needs().reference) return;
  if (run.augments())
    log_info(parts_.key.label,
             ": pictures are augmented, so every step makes one more pass of the base model (adapters off) for the "
             "reference of the geometry term");
  if (run.geometry_batch == GeometryBatch::global && run.accumulation > 1)
    log_info(parts_.key.label, ": geometry.batch=global: the ", run.accumulation,
             " passes of a step go forward once more, for the embeddings of all of them");
}

// A sample that cannot be read any more stops the run, but costs none of its steps.
Loop::Done Trainer::step_or_save(const SampleSet& set, const Phase& phase) {
  try {
    return loop_.step(set, phase, checkpoint_.due());
  } catch (const UnreadableSample& error) {
    recorder_.training_pauses();
    checkpoint_.save();
    throw Error(cat(error.what(), "; the run is saved up to step ", parts_.at.step, " of stage ", parts_.at.stage,
                    ": mend the file, then --resume"),
                error.status);
  }
}

void Trainer::train_phase(const SampleSet& set, const Phase& phase, Progress* progress) {
  auto& at = parts_.at;
  if (at.in_phase() == 0) {
    auto context = parts_.stage_context(set, parts_.trained(), {});
    for (auto& method : parts_.methods) method->begin_phase(context, phase);
  }
  int64_t parameters = 0;
  for (const auto& [name, tensor] : parts_.trained()) parameters += tensor.numel();
  at.most_parameters = std::max(at.most_parameters, parameters);
  loop_.start(phase, checkpoint_.waiting());
  checkpoint_.forget_waiting();
  bool done_early = false;
  while (at.in_phase() < phase.steps && !done_early) {
    const auto done = step_or_save(set, phase);
    waited_ += done.waited;
    summed_bytes_ = loop_.summed_bytes();
    if (!done.terms.empty()) recorder_.log_step(phase, done);
    if (progress)
      progress->advance(1, fmt::format("{}loss {:.3f}, run {} left", phase.name.empty() ? "" : phase.name + ", ",
                                       done.loss, human_duration(recorder_.seconds_left())));
    for (auto& method : parts_.methods) done_early = method->phase_done(phase, at.in_phase(), done.loss) || done_early;
    if (done_early) {
      at.phase_step = at.step;
      ++at.phase;
    }
    if (done.save_due || done.stop) {
      recorder_.training_pauses();
      checkpoint_.save();
      recorder_.training_begins();
    }
    if (done.stop) stopped(cat("in stage ", at.stage, " after step ", at.step), done.stop);
  }
  loop_.stop();
  if (done_early) return;
  at.phase_step = at.step;
  ++at.phase;
}

void Trainer::train_stage() {
  auto& at = parts_.at;
  const bool reference = parts_.needs().reference && !parts_.config.run.augments();
  const auto& all = parts_.stage_data(reference);
  const double start = now();
  const auto phases = parts_.phases(at.stage);
  const int64_t steps = phases.back().end();
  if (at.step == 0 && at.phase == 0) {
    parts_.make_slots(at.stage);
    auto context = parts_.stage_context(all, parts_.trained(), {});
    for (auto& method : parts_.methods) method->begin_stage(context);
  }
  const auto chosen = parts_.chosen_data(all, reference);
  const auto& set = chosen ? *chosen : all;
  auto context = parts_.stage_context(set, parts_.trained(), {});
  for (auto& method : parts_.methods) method->before_stage(context);
  at.prepare_seconds += now() - start;
  std::optional<Progress> progress;
  if (parts_.team.leads())
    progress.emplace(fmt::format("{} {}/{} {}", parts_.key.label, at.stage, parts_.stages(), parts_.stage_title()),
                     steps);
  if (progress && at.step > 0) progress->advance(at.step);
  recorder_.training_begins();
  while (at.phase < static_cast<int64_t>(phases.size()))
    train_phase(set, phases[static_cast<size_t>(at.phase)], progress ? &*progress : nullptr);
  recorder_.training_pauses();
  if (progress) progress->finish();
  at.trained = true;
  checkpoint_.save();  // the optimizer's moments are not needed any more
}

void Trainer::finish_stage() {
  const double start = now();
  const auto& set = parts_.stage_data(false);
  const auto& run = parts_.config.run;
  std::optional<StageMoments> measured;
  const auto moments = [&]() -> const StageMoments& {
    if (!measured) {
      const auto key = draw_key(DrawPurpose::prototypes, parts_.seed(), parts_.at.stage);
      measured = stage_moments({parts_.model, parts_.answering(), parts_.config.options, run.tap_layers},
                               {set, drawn_rows(set.size(), run.memory_samples, key), parts_.at.stage}, parts_.team);
    }
    return *measured;
  };
  const auto trained = parts_.trained();
  auto context = parts_.stage_context(set, trained, moments);
  for (auto& method : parts_.methods) method->after_stage(context);
  // Whatever the method keeps, the analysis goes on measuring; what a method has measured costs nothing more.
  if (run.analysis_memory == Switch::yes || measured) parts_.analysis_memory.take(moments());
  check_same_state();
  parts_.at.finish_seconds += now() - start;
}

// What every process holds must be the same to the last bit, or they would train different models from here on.
void Trainer::check_same_state() {
  if (parts_.team.size() == 1) return;
  Sha256 hash;
  for (const auto& [name, tensor] : checkpoint_.tensors()) hash.update(tensor.contiguous().data_ptr(), tensor.nbytes());
  const auto all = parts_.team.gather_texts({hash.hex()});
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail_system("after stage ", parts_.at.stage, " process ", rank,
                  " holds another state than process 0; "
                  "the processes must run the same program on the same kind of device");
}

// Since this start: what the processes exchanged in training, and what that cost.
void Trainer::say_communication() const {
  if (!parts_.team.leads() || summed_bytes_ == 0) return;
  log_info(fmt::format("{}: {} summed {:.2f} MB of gradients a step; process 0 waited {:.2f} s for that",
                       parts_.key.label,
                       parts_.team.size() == 1 ? "1 process" : fmt::format("{} processes", parts_.team.size()),
                       static_cast<double>(summed_bytes_) / 1e6, waited_));
}

void Trainer::stopped(const std::string& where, int signal_number) {
  parts_.team.any(false);  // process 0 has written its checkpoint when all are here
  throw Stopped(cat("stopped ", where, "; go on with --resume"), signal_number);
}

void Trainer::resume_run() {
  const auto folder = parts_.key.folder + "/checkpoints";
  LatestCheckpoint latest;
  if (parts_.team.leads()) latest = find_latest_checkpoint(folder);
  set_aside(folder, latest.damaged);
  const auto apart = latest.checkpoint ? latest.checkpoint->apart : NamedTensors();
  if (auto all = shared_checkpoint(std::move(latest.checkpoint), parts_.team))
    checkpoint_.restore(std::move(*all), apart);
}

void Trainer::run(bool resume, const std::function<void()>& ready) {
  auto& at = parts_.at;
  if (parts_.team.leads()) {
    remove_temporaries(parts_.key.folder);
    remove_unfinished_checkpoints(parts_.key.folder + "/checkpoints");  // of a killed process
    make_folders(parts_.key.folder + "/checkpoints");
    make_folders(parts_.key.folder + "/predictions");
    recorder_.open_files();
  }
  if (resume) resume_run();
  checkpoint_.start_clock();
  if (ready) ready();
  say_costs();
  const bool fresh = at.rows.empty();
  if (fresh && parts_.team.leads()) recorder_.start_log("");
  recorder_.start_event_log();
  if (fresh) {
    recorder_.evaluate();
    checkpoint_.save();
    if (const int number = stop_signal(parts_.team)) stopped("before stage 1", number);
  }
  while (at.stage < parts_.stages() || at.trained || at.step > 0) {
    if (!at.trained) {
      if (at.step == 0) ++at.stage;
      train_stage();
    }
    finish_stage();
    recorder_.evaluate();
    at.trained = false;
    at.step = at.phase = at.phase_step = 0;
    recorder_.write_kept_state();
    checkpoint_.save();
    if (at.stage == parts_.stages()) break;
    if (const int number = stop_signal(parts_.team)) stopped(cat("after stage ", at.stage), number);
  }
  recorder_.write_results(true);
  say_communication();
}

}  // namespace asr
