#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/text.h"
#include "data/drawn_rows.h"
#include "data/long_pass.h"
#include "skills/taxonomy.h"
#include "train/joint.h"
#include "train/task_order.h"

namespace asr {

Trainer::Trainer(const RunConfig& config, const RunKey& key, Backbone& model, Data& data, const Team& team)
    : config_(config), key_(key), model_(model), data_(data), team_(team) {
  const auto& run = config_.run;
  order_ = task_order(data.stream().tasks().size(), key.order);
  for (const auto& site : model_.sites()) site.linear->slots.clear();
  parameters_ = add_experts(model_.sites(), run.lora_rank, run.lora_alpha,
                            Random({static_cast<uint64_t>(key.seed), 0xada}).next());
  if (run.head == Head::answers) {
    std::vector<std::string> answers;
    for (size_t task = 0; task < order_.size(); ++task)
      for (const auto split : {DataSplit::train, config_.run.scored_split()})
        for (const auto& text : data_.get(task, split).texts) answers.push_back(text.answer);
    std::sort(answers.begin(), answers.end());
    answers.erase(std::unique(answers.begin(), answers.end()), answers.end());
    head_.emplace(model_, std::move(answers));
    head_->weight().requires_grad_();
    parameters_.emplace_back("answer_head.weight", head_->weight());
  }
  methods_ = make_methods(key.composition, config.method_assignments);
  for (auto& method : methods_) method->prepare(model_, config_.options);
  analysis_memory_.options = config_.options, analysis_memory_.skill_names = skill_names();
}

Trainer::~Trainer() {
  for (const auto& site : model_.sites()) site.linear->slots.clear();
}

int Trainer::stages() const {
  return methods_[0]->joint() ? 1 : static_cast<int>(order_.size());
}

Needs Trainer::needs() const {
  Needs out;
  for (const auto& method : methods_) {
    const auto n = method->needs(at_.stage);
    out.tap |= n.tap, out.pooled |= n.pooled, out.logits |= n.logits, out.reference |= n.reference;
  }
  return out;
}

int64_t Trainer::rows_a_step(int stage) const {
  int64_t rows = config_.run.batch;
  for (const auto& method : methods_) rows = std::min(rows, method->current_rows(config_.run.batch, stage));
  return rows;
}

// Each group of a nested task goes through its own epochs; what a method does before and after a stage is done once.
std::vector<Trainer::Phase> Trainer::stage_phases(int stage) const {
  const auto& run = config_.run;
  const auto& stream = data_.stream();
  const int64_t rows = rows_a_step(stage);
  if (methods_[0]->joint()) {
    std::vector<UnionPart> parts;
    for (const size_t task : order_)
      parts.push_back({stream.size(task, DataSplit::train), run.epochs_of(stream.tasks()[task].name)});
    auto drawn = draw_union(parts, static_cast<uint64_t>(key_.seed));
    const int64_t steps = run.all_steps(drawn.epochs, drawn.samples, rows);
    return {{"", std::move(drawn.rows), 0, drawn.samples, 0, steps}};
  }
  const size_t task = order_[static_cast<size_t>(stage) - 1];
  const double epochs = run.epochs_of(stream.tasks()[task].name);
  const int64_t all = stream.size(task, DataSplit::train);
  std::vector<Phase> out;
  for (auto& group : stream.phases(task)) {
    const auto samples = static_cast<int64_t>(group.rows.size());
    int64_t steps = run.stage_steps(epochs, samples, rows);
    // The stage's limit is shared out by size.
    if (run.max_stage_steps > 0) steps = std::clamp<int64_t>(run.max_stage_steps * samples / all, 1, steps);
    out.push_back({group.name, std::move(group.rows), static_cast<int64_t>(out.size()) + 1, samples,
                   out.empty() ? 0 : out.back().end(), steps});
  }
  if (out.empty()) out.push_back({"", {}, 0, all, 0, run.stage_steps(epochs, all, rows)});
  return out;
}

const SampleSet& Trainer::stage_data(bool reference) {
  if (!methods_[0]->joint()) return data_.get(order_[static_cast<size_t>(at_.stage) - 1], DataSplit::train, reference);
  if (!union_) {
    std::vector<SampleSet> sets;
    for (const size_t task : order_) sets.push_back(data_.get(task, DataSplit::train));
    union_ = concatenate(sets);
    union_->name = "all tasks";
  }
  return *union_;
}

std::vector<torch::Tensor> Trainer::trained_tensors() {
  std::vector<torch::Tensor> out;
  for (const auto& [name, tensor] : parameters_) out.push_back(tensor);
  return out;
}

StageContext Trainer::stage_context(const SampleSet& set, std::function<const StageMoments&()> moments) {
  return {at_.stage, static_cast<uint64_t>(key_.seed), config_.run.batch, model_, parameters_, set, std::move(moments),
          team_};
}

void Trainer::start_optimizer(const Phase& phase) {
  AdamWOptions adam;
  adam.weight_decay = config_.run.weight_decay;
  optimizer_.emplace(trained_tensors(), adam);
  if (restored_ && at_.step > phase.first) {
    optimizer_->first.copy_(restored_->at("optimizer.first", optimizer_->first.sizes()));
    optimizer_->second.copy_(restored_->at("optimizer.second", optimizer_->second.sizes()));
    optimizer_->steps = at_.step - phase.first;
  }
  restored_.reset();
}

// Passes that a step makes beside those that train it.
void Trainer::say_costs() const {
  const auto& run = config_.run;
  if (!team_.leads() || !needs().reference) return;
  if (run.augments())
    log_info(key_.label,
             ": pictures are augmented, so every step makes one more pass of the base model (adapters off) for the "
             "reference of the geometry term");
  if (reaches_over_passes())
    log_info(key_.label, ": geometry.batch=global: the ", run.accumulation,
             " passes of a step go forward once more, for the embeddings of all of them");
}

void Trainer::train_stage() {
  const auto& set = stage_data(needs().reference && !config_.run.augments());
  const auto phases = stage_phases(at_.stage);
  const int64_t steps = phases.back().end();
  auto context = stage_context(set, {});
  for (auto& method : methods_) method->before_stage(context);
  const auto title = methods_[0]->joint() ? std::string("all tasks")
                                          : data_.stream().tasks()[order_[static_cast<size_t>(at_.stage) - 1]].name;
  std::optional<Progress> progress;
  if (team_.leads()) progress.emplace(fmt::format("{} {}/{} {}", key_.label, at_.stage, stages(), title), steps);
  if (progress && at_.step > 0) progress->advance(at_.step);
  start_seconds_ = now();
  training_ = true;
  auto phase = phases.begin();
  optimizer_.reset();
  while (at_.step < steps) {
    while (at_.step >= phase->end()) ++phase, optimizer_.reset();
    if (!optimizer_) start_optimizer(*phase);
    const auto done = step_or_save(set, *phase);
    if (progress)
      progress->advance(1, fmt::format("{}loss {:.3f}, run {} left", phase->name.empty() ? "" : phase->name + ", ",
                                       done.loss, human_duration(seconds_left())));
    if (done.save_due || done.stop) {
      at_.train_seconds += now() - start_seconds_, start_seconds_ = now();
      save();
    }
    if (done.stop) stopped(cat("in stage ", at_.stage, " after step ", at_.step), done.stop);
  }
  at_.train_seconds += now() - start_seconds_;
  training_ = false;
  if (progress) progress->finish();
  at_.trained = true;
  save();  // the optimizer's moments are not needed any more
}

// A sample that cannot be read any more stops the run, but costs none of its steps.
Trainer::StepDone Trainer::step_or_save(const SampleSet& set, const Phase& phase) {
  try {
    return train_step(set, phase);
  } catch (const UnreadableSample& error) {
    at_.train_seconds += now() - start_seconds_;
    save();
    throw Error(cat(error.what(), "; the run is saved up to step ", at_.step, " of stage ", at_.stage,
                    ": mend the file, then --resume"),
                error.status);
  }
}

void Trainer::finish_stage() {
  const double start = now();
  const auto& set = stage_data(false);
  std::optional<StageMoments> measured;
  const auto moments = [&]() -> const StageMoments& {
    if (!measured) {
      const auto key = draw_key(DrawPurpose::prototypes, static_cast<uint64_t>(key_.seed), at_.stage);
      measured = stage_moments(model_, {set, drawn_rows(set.size(), config_.run.memory_samples, key), at_.stage},
                               config_.options, config_.run.tap_layers, team_);
    }
    return *measured;
  };
  auto context = stage_context(set, moments);
  for (auto& method : methods_) method->after_stage(context);
  // Whatever the method keeps, the analysis goes on measuring; what a method has measured costs nothing more.
  if (config_.run.analysis_memory == Switch::yes || measured) analysis_memory_.take(moments());
  optimizer_.reset();
  check_same_state();
  at_.finish_seconds += now() - start;
}

// What every process holds must be the same to the last bit, or they would train different models from here on.
void Trainer::check_same_state() {
  if (team_.size() == 1) return;
  Sha256 hash;
  for (const auto& [name, tensor] : state_tensors()) hash.update(tensor.contiguous().data_ptr(), tensor.nbytes());
  const auto all = team_.gather_texts({hash.hex()});
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail_system("after stage ", at_.stage, " process ", rank,
                  " holds another state than process 0; "
                  "the processes must run the same program on the same kind of device");
}

void Trainer::stopped(const std::string& where, int signal_number) {
  team_.any(false);  // process 0 has written its checkpoint when all are here
  throw Stopped(cat("stopped ", where, "; go on with --resume"), signal_number);
}

void Trainer::run(bool resume, const std::function<void()>& ready) {
  for (int stage = 1; stage <= stages(); ++stage) total_steps_ += stage_phases(stage).back().end();
  if (team_.leads()) {
    remove_temporaries(key_.folder),
        remove_unfinished_checkpoints(key_.folder + "/checkpoints");  // of a killed process
    make_folders(key_.folder + "/checkpoints"), make_folders(key_.folder + "/predictions");
    open_files();
  }
  if (resume) {
    LatestCheckpoint latest;
    if (team_.leads()) latest = find_latest_checkpoint(key_.folder + "/checkpoints");
    set_aside(key_.folder + "/checkpoints", latest.damaged);
    if (auto all = shared_checkpoint(std::move(latest.checkpoint), team_)) restore(*all);
  }
  last_save_ = now();
  if (ready) ready();
  say_costs();
  const bool fresh = at_.rows.empty();
  if (fresh && team_.leads()) start_log("");
  start_event_log();
  if (fresh) {
    evaluate();
    save();
    if (const int number = stop_signal(team_)) stopped("before stage 1", number);
  }
  while (at_.stage < stages() || at_.trained || at_.step > 0) {
    if (!at_.trained) {
      if (at_.step == 0) ++at_.stage;
      train_stage();
    }
    finish_stage();
    evaluate();
    at_.trained = false, at_.step = 0;
    write_kept_state();
    save();
    if (at_.stage == stages()) break;
    if (const int number = stop_signal(team_)) stopped(cat("after stage ", at_.stage), number);
  }
  write_results(true);
}

}  // namespace asr
