#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/random.h"
#include "skills/taxonomy.h"

namespace asr {

volatile std::sig_atomic_t stop_requested = 0;

namespace {

// The stream's own order first, then random ones: the same for every method and seed.
std::vector<size_t> task_order(size_t tasks, int64_t order) {
  std::vector<size_t> out(tasks);
  for (size_t i = 0; i < tasks; ++i) out[i] = i;
  if (order > 0) Random({0x07de7, static_cast<uint64_t>(order)}).shuffle(out);
  return out;
}

// Rows of a step: positions of a sequence that goes through a fresh permutation of the data in every epoch.
std::vector<int64_t> step_rows(int64_t first, int64_t count, int64_t samples, uint64_t seed, uint64_t stage) {
  std::vector<int64_t> out, permutation;
  int64_t epoch_of_permutation = -1;
  for (int64_t p = first; p < first + count; ++p) {
    const int64_t epoch = p / samples;
    if (epoch != epoch_of_permutation) {
      permutation = range(0, samples);
      Random({seed, 0x54f1, stage, static_cast<uint64_t>(epoch)}).shuffle(permutation);
      epoch_of_permutation = epoch;
    }
    out.push_back(permutation[static_cast<size_t>(p % samples)]);
  }
  return out;
}

std::string names_of(const SampleSet& set, const std::vector<int64_t>& rows) {
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 8); ++i)
    out += (i ? ", " : "") + set.texts[static_cast<size_t>(rows[i])].id;
  return rows.size() > 8 ? cat(out, " and ", rows.size() - 8, " more") : out;
}

}  // namespace

Trainer::Trainer(const RunConfig& config, const RunKey& key, Backbone& model, Data& data)
    : config_(config), key_(key), model_(model), data_(data) {
  const auto& run = config_.run;
  order_ = task_order(data.stream().tasks().size(), key.order);
  for (const auto& site : model_.sites()) site.linear->experts.clear();
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
  for (const auto& site : model_.sites()) site.linear->experts.clear();
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
    int64_t samples = 0;
    for (const size_t task : order_) samples += stream.size(task, DataSplit::train);
    return {{"", {}, 0, samples, 0, run.stage_steps(run.num_train_epochs, samples, rows)}};
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

// Rows of the sample set for a forward pass of a phase, counted from its beginning.
std::vector<int64_t> Trainer::phase_rows(const Phase& phase, int64_t pass) const {
  const int64_t each = rows_a_step(at_.stage);
  const auto key = static_cast<uint64_t>(at_.stage) + (static_cast<uint64_t>(phase.number) << 32);
  auto out = step_rows(pass * each, each, phase.samples, static_cast<uint64_t>(key_.seed), key);
  if (!phase.rows.empty())
    for (auto& row : out) row = phase.rows[static_cast<size_t>(row)];
  return out;
}

const SampleSet& Trainer::stage_data(bool reference) {
  if (!methods_[0]->joint()) return data_.get(order_[static_cast<size_t>(at_.stage) - 1], DataSplit::train, reference);
  if (!union_) {
    std::vector<SampleSet> sets;
    for (const size_t task : order_) sets.push_back(data_.get(task, DataSplit::train));
    union_ = concatenate(sets);
  }
  return *union_;
}

std::vector<torch::Tensor> Trainer::trained_tensors() {
  std::vector<torch::Tensor> out;
  for (const auto& [name, tensor] : parameters_) out.push_back(tensor);
  return out;
}

torch::Tensor Trainer::batch_loss(const Batch& batch, const std::vector<int64_t>& rows, const SampleSet& set,
                                  int64_t step, int64_t micro, std::map<std::string, torch::Tensor>& terms) {
  const auto& run = config_.run;
  const auto wanted = needs();
  AdapterDropout dropout{run.lora_dropout,
                         Random({static_cast<uint64_t>(key_.seed), 0xd409, static_cast<uint64_t>(at_.stage),
                                 static_cast<uint64_t>(step), static_cast<uint64_t>(micro)})
                             .next()};
  Pass pass;
  pass.dropout = run.lora_dropout > 0 ? &dropout : nullptr;
  Want want;
  want.tap_layers = wanted.tap ? run.tap_layers : 0, want.pooled = wanted.pooled, want.logits = wanted.logits;
  want.state = head_.has_value(), want.loss = !head_;
  auto out = model_.forward(batch, pass, want);
  if (head_) {
    check(batch.size() == static_cast<int64_t>(rows.size()), "head=answers cannot be combined with replay");
    std::vector<std::string> answers;
    for (const int64_t row : rows) answers.push_back(set.texts[static_cast<size_t>(row)].answer);
    out.logits = head_->logits(out.state);
    out.loss = at::cross_entropy_loss(out.logits, head_->targets(answers));
  }
  terms["task_loss"] = out.loss.detach();
  auto total = out.loss;
  const auto logits = [&](const Pass& other) {
    Want only;
    only.loss = false, only.logits = !head_, only.state = head_.has_value();
    const auto result = model_.forward(batch, other, only);
    return head_ ? head_->logits(result.state) : result.logits;
  };
  StepContext context{parameters_, batch, out, logits, terms};
  for (auto& method : methods_) {
    const auto extra = method->loss(context);
    if (extra.defined()) total = total + extra;
  }
  return total;
}

double Trainer::train_step(const SampleSet& set, const Phase& phase) {
  const auto& run = config_.run;
  const int64_t step = at_.step, in_phase = step - phase.first, steps = phase.steps;
  optimizer_->zero_grad();
  std::map<std::string, torch::Tensor> terms;
  double loss = 0;
  for (int64_t micro = 0; micro < run.accumulation; ++micro) {
    const int64_t now_at = in_phase * run.accumulation + micro;
    const auto rows = phase_rows(phase, now_at);
    // Only the paper's recipe augments; every pass over the data draws anew.
    const auto augment = [&](int64_t pass) -> std::optional<uint64_t> {
      if (run.recipe != Recipe::asr_paper) return std::nullopt;
      return Random({static_cast<uint64_t>(key_.seed), 0xa496, static_cast<uint64_t>(at_.stage),
                     static_cast<uint64_t>(phase.first * run.accumulation + pass)})
          .next();
    };
    auto batch = set.training_rows(rows, augment(now_at));
    for (int64_t ahead = now_at + 1; ahead <= std::min(now_at + run.workers, steps * run.accumulation - 1); ++ahead)
      set.prefetch(phase_rows(phase, ahead), augment(ahead));
    const uint64_t key = Random({static_cast<uint64_t>(key_.seed), 0x313, static_cast<uint64_t>(at_.stage),
                                 static_cast<uint64_t>(step), static_cast<uint64_t>(micro)})
                             .next();
    for (auto& method : methods_) method->mix_batch(batch, model_, key);
    const auto total = batch_loss(batch, rows, set, step, micro, terms);
    const double value = total.item<double>();
    if (!std::isfinite(value))
      fail_system("the loss is ", value, " at step ", step + 1, " of stage ", at_.stage, ", batch of ",
                  names_of(set, rows),
                  "; nothing later was saved: lower learning_rate or look at these samples, then --resume");
    (run.accumulation > 1 ? total / static_cast<double>(run.accumulation) : total).backward();
    loss += value / static_cast<double>(run.accumulation);
  }
  const auto norm = optimizer_->clip(run.max_grad_norm);
  const auto warmup = static_cast<int64_t>(run.warmup_ratio * static_cast<double>(steps));
  const double rate = run.schedule == Schedule::cosine ? cosine_rate(run.learning_rate, in_phase, steps, warmup)
                      : in_phase < warmup
                          ? run.learning_rate * static_cast<double>(in_phase + 1) / static_cast<double>(warmup)
                          : run.learning_rate;
  optimizer_->step(rate);
  ++at_.global_step, ++at_.step;
  if (at_.step % run.logging_steps == 0 || at_.step == phase.end())
    log_step(phase, loss, rate, norm.item<double>(), terms);
  return loss;
}

StageContext Trainer::stage_context(const SampleSet& set, std::function<const StageMoments&()> moments) {
  return {at_.stage, static_cast<uint64_t>(key_.seed), config_.run.batch, model_, parameters_, set, std::move(moments)};
}

void Trainer::start_optimizer(const Phase& phase) {
  AdamWOptions adam;
  adam.weight_decay = config_.run.weight_decay;
  optimizer_.emplace(trained_tensors(), adam);
  if (restored_ && at_.step > phase.first) {
    optimizer_->first.copy_(restored_->at("optimizer.first")),
        optimizer_->second.copy_(restored_->at("optimizer.second"));
    optimizer_->steps = at_.step - phase.first;
  }
  restored_.reset();
}

void Trainer::train_stage() {
  const auto& set = stage_data(needs().reference);
  const auto phases = stage_phases(at_.stage);
  const int64_t steps = phases.back().end();
  auto context = stage_context(set, {});
  for (auto& method : methods_) method->before_stage(context);
  const auto title = methods_[0]->joint() ? std::string("all tasks")
                                          : data_.stream().tasks()[order_[static_cast<size_t>(at_.stage) - 1]].name;
  Progress progress(fmt::format("{} {}/{} {}", key_.label, at_.stage, stages(), title), steps);
  if (at_.step > 0) progress.advance(at_.step);
  start_seconds_ = now();
  auto phase = phases.begin();
  optimizer_.reset();
  while (at_.step < steps) {
    while (at_.step >= phase->end()) ++phase, optimizer_.reset();
    if (!optimizer_) start_optimizer(*phase);
    const double loss = train_step(set, *phase);
    progress.advance(1, fmt::format("{}loss {:.3f}", phase->name.empty() ? "" : phase->name + ", ", loss));
    const auto& run = config_.run;
    const bool due = (run.save_steps > 0 && at_.global_step % run.save_steps == 0) ||
                     (run.save_minutes > 0 && now() - last_save_ > run.save_minutes * 60);
    if (due || stop_requested) {
      at_.train_seconds += now() - start_seconds_, start_seconds_ = now();
      save();
    }
    if (stop_requested) fail_system("stopped in stage ", at_.stage, " after step ", at_.step, "; go on with --resume");
  }
  at_.train_seconds += now() - start_seconds_;
  progress.finish();
  at_.trained = true;
  save();  // the optimizer's moments are not needed any more
}

void Trainer::finish_stage() {
  const double start = now();
  const auto& set = stage_data(false);
  std::optional<StageMoments> measured;
  const auto moments = [&]() -> const StageMoments& {
    if (!measured)
      measured =
          stage_moments(model_, set, config_.run.memory_samples, at_.stage, config_.options, config_.run.tap_layers);
    return *measured;
  };
  auto context = stage_context(set, moments);
  for (auto& method : methods_) method->after_stage(context);
  analysis_memory_.update(moments());
  optimizer_.reset();
  at_.finish_seconds += now() - start;
}

void Trainer::run(bool resume) {
  for (int stage = 1; stage <= stages(); ++stage) total_steps_ += stage_phases(stage).back().end();
  make_folders(key_.folder + "/checkpoints"), make_folders(key_.folder + "/predictions");
  if (resume)
    if (auto checkpoint = load_latest_checkpoint(key_.folder + "/checkpoints")) restore(*checkpoint);
  last_save_ = now();
  if (at_.rows.empty()) {
    log_bytes_ = 0;
    write_file_atomically(key_.folder + "/log.jsonl", "");
    evaluate();
    save();
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
    if (stop_requested && at_.stage < stages()) fail_system("stopped after stage ", at_.stage, "; go on with --resume");
  }
  write_results(true);
}

}  // namespace asr
