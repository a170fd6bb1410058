// One optimizer step, on this process's part of it. Where several processes train together, passes of an accumulated
// step are dealt out whole if they come out even, and every pass is split otherwise; in both cases the gradients of the
// processes add up to that of one process with the whole step.
#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "data/long_pass.h"
#include "tensor/record.h"
#include "train/trainer.h"

namespace asr {
namespace {

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

bool Trainer::splits_batches() const {
  return team_.size() > 1 && config_.run.accumulation % team_.size() != 0;
}

// This process's samples of a pass; a stand-in where there are fewer samples than processes.
// `pass` counts from the phase's beginning.
std::vector<int64_t> Trainer::pass_rows(const Phase& phase, int64_t pass, Share& share) const {
  share.whole = rows_a_step(at_.stage);
  const auto key = static_cast<uint64_t>(at_.stage) + (static_cast<uint64_t>(phase.number) << 32);
  auto rows = step_rows(pass * share.whole, share.whole, phase.samples, static_cast<uint64_t>(key_.seed), key);
  if (!phase.rows.empty())
    for (auto& row : rows) row = phase.rows[static_cast<size_t>(row)];
  const auto mine = part_of(share.whole, share.team);
  share.positions = range(mine.begin, mine.end);
  if (mine.size() == 0) return {rows[0]};
  return {rows.begin() + mine.begin, rows.begin() + mine.end};
}

// This process's samples of the step in hand.
std::vector<int64_t> Trainer::rows_of_step(const Phase& phase, Part passes) const {
  std::vector<int64_t> out;
  for (int64_t micro = passes.begin; micro < passes.end; ++micro) {
    Share share{splits_batches() ? team_ : alone_};
    const auto rows = pass_rows(phase, (at_.step - phase.first) * config_.run.accumulation + micro, share);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

void Trainer::diverged(const std::string& what, const SampleSet& set, const std::vector<int64_t>& rows) const {
  fail_system(what, " at step ", at_.step + 1, " of stage ", at_.stage, ", batch of ", names_of(set, rows),
              "; the step was not taken, and the last checkpoint is of step ", saved_step_,
              ": look at these samples, or go on from there with --resume and a lower learning_rate (for this run "
              "alone: --set method=",
              key_.composition, " --set learning_rate=...; the change is recorded)");
}

// What only all processes together know of a batch: its answers, its longest text, who holds which rows.
void Trainer::complete_share(Share& share, SampleBatch& batch) const {
  if (share.team.size() == 1) return;
  const auto held = static_cast<int64_t>(share.positions.size());
  const int64_t answers = head_ || held == 0 ? held : batch.input.labels.ge(0).sum().item<int64_t>();
  const auto all = share.team.gather(torch::tensor({held, answers, batch.input.ids.size(1)}, at::kLong).view({1, 3}));
  const auto total = all.sum(0);
  share.before = all.narrow(0, 0, share.team.rank()).select(1, 0).sum().item<int64_t>();
  share.samples = static_cast<double>(held) / total[0].item<double>();
  share.answers = static_cast<double>(answers) / total[1].item<double>();
  batch.input = padded(std::move(batch.input), all.select(1, 2).max().item<int64_t>());
}

AdapterDropout Trainer::pass_dropout(const TrainPass& pass) const {
  AdapterDropout out{config_.run.lora_dropout,
                     Random({static_cast<uint64_t>(key_.seed), 0xd409, static_cast<uint64_t>(at_.stage),
                             static_cast<uint64_t>(at_.step), static_cast<uint64_t>(pass.micro)})
                         .next()};
  const auto& positions = pass.share.positions;
  if (pass.share.team.size() > 1) out.positions = positions.empty() ? range(0, 1) : positions;
  return out;
}

torch::Tensor Trainer::pass_loss(const TrainPass& pass, const SampleSet& set, Terms& terms) {
  const auto& run = config_.run;
  const auto& batch = pass.batch;
  const auto wanted = needs();
  auto dropout = pass_dropout(pass);
  Pass how;
  how.dropout = run.lora_dropout > 0 ? &dropout : nullptr;
  Want want;
  want.tap_layers = wanted.tap ? run.tap_layers : 0, want.pooled = wanted.pooled, want.logits = wanted.logits;
  want.state = head_.has_value(), want.loss = !head_;
  auto out = model_.forward(batch.input, how, want);
  if (head_) {
    check(batch.size() == static_cast<int64_t>(pass.rows.size()), "head=answers cannot be combined with replay");
    std::vector<std::string> answers;
    for (const int64_t row : pass.rows) answers.push_back(set.texts[static_cast<size_t>(row)].answer);
    out.logits = head_->logits(out.state);
    out.loss = at::cross_entropy_loss(out.logits, head_->targets(answers));
  }
  std::vector<std::pair<torch::Tensor, double>> losses = {{scaled(out.loss, pass.share.answers), 1}};
  terms["task_loss"] = losses[0].first.detach();
  const auto logits = [&](const Pass& other) {
    Want only;
    only.loss = false, only.logits = !head_, only.state = head_.has_value();
    const auto result = model_.forward(batch.input, other, only);
    return head_ ? head_->logits(result.state) : result.logits;
  };
  StepContext context{parameters_, batch, pass.share, out, logits, terms, losses, pass.first, run.accumulation};
  for (auto& method : methods_) method->add_losses(context);
  return losses.size() == 1 ? losses[0].first : weighted_sum(losses);
}

Trainer::TrainPass Trainer::make_pass(const SampleSet& set, const Phase& phase, int64_t micro, Part passes) {
  const auto& run = config_.run;
  const int64_t step = at_.step, in_phase = step - phase.first;
  TrainPass out{{}, {splits_batches() ? team_ : alone_}, {}, micro};
  // Every pass over the data draws anew.
  const auto augment = [&](int64_t pass) -> std::optional<uint64_t> {
    if (!run.augments()) return std::nullopt;
    return Random({static_cast<uint64_t>(key_.seed), 0xa496, static_cast<uint64_t>(at_.stage),
                   static_cast<uint64_t>(phase.first * run.accumulation + pass)})
        .next();
  };
  const int64_t now_at = in_phase * run.accumulation + micro;
  out.rows = pass_rows(phase, now_at, out.share);
  out.batch = set.training_rows(out.rows, augment(now_at));
  for (auto& info : out.batch.info) info.stage = at_.stage;
  // The passes of this process that come next, in this step and the following ones.
  for (int64_t ahead = 1; ahead <= run.workers; ++ahead) {
    const int64_t later = micro - passes.begin + ahead,
                  pass = (in_phase + later / passes.size()) * run.accumulation + passes.begin + later % passes.size();
    if (pass >= phase.steps * run.accumulation) break;
    Share other{out.share.team};
    set.prefetch(pass_rows(phase, pass, other), augment(pass));
  }
  if (run.augments() && needs().reference) add_reference(out.batch, model_);
  const uint64_t key = Random({static_cast<uint64_t>(key_.seed), 0x313, static_cast<uint64_t>(at_.stage),
                               static_cast<uint64_t>(step), static_cast<uint64_t>(micro)})
                           .next();
  for (auto& method : methods_) method->mix_batch(out.batch, out.share, model_, key);
  complete_share(out.share, out.batch);
  return out;
}

bool Trainer::reaches_over_passes() const {
  return config_.run.geometry_batch == GeometryBatch::global && config_.run.accumulation > 1 && needs().reference;
}

// Embeddings of all samples of the step, without gradient but with the dropout that their training passes will have.
// How they are ordered among the processes does not matter, as long as all know where their own stand.
void Trainer::look_over_step(std::vector<TrainPass>& passes) {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false, want.pooled = true;
  std::vector<torch::Tensor> rows;
  int64_t held = 0;
  for (auto& pass : passes) {
    pass.first = held;
    auto dropout = pass_dropout(pass);
    Pass how;
    how.dropout = config_.run.lora_dropout > 0 ? &dropout : nullptr;
    if (pass.share.positions.empty()) continue;  // a stand-in
    const auto out = model_.forward(pass.batch.input, how, want);
    rows.push_back(at::cat({out.image, out.text, pass.batch.reference_image, pass.batch.reference_text}, 1));
    held += rows.back().size(0);
  }
  const auto counts = team_.gather(torch::full({1}, held, at::kLong));
  const auto before = counts.narrow(0, 0, team_.rank()).sum().item<int64_t>();
  for (auto& pass : passes) pass.first += before;
  const auto none = at::empty({0}, at::device(model_.device()).dtype(at::kFloat));
  const auto all = team_.gather(rows.empty() ? none : at::cat(rows)).chunk(4, 1);
  const at::AutoGradMode with_gradient(true);
  for (auto& method : methods_) method->whole_step({all[0], all[1], all[2], all[3]});
}

// A pass forward and backward; returns this process's summand of its loss.
double Trainer::train_pass(const TrainPass& pass, const SampleSet& set, Terms& terms) {
  const auto& run = config_.run;
  const auto total = pass_loss(pass, set, terms);
  const double value = total.item<double>();
  if (!std::isfinite(value)) diverged(cat("the loss is ", value), set, pass.rows);
  (run.accumulation > 1 ? total / static_cast<double>(run.accumulation) : total).backward();
  return value / static_cast<double>(run.accumulation);
}

// Sums over the processes: the loss, whether one was told to stop or process 0 wants to save, and what is logged.
Trainer::StepDone Trainer::add_up(double loss, bool log_now, bool last_pass, Terms& terms) {
  const auto& run = config_.run;
  const bool due = (run.save_steps > 0 && at_.global_step % run.save_steps == 0) ||
                   (run.save_minutes > 0 && now() - last_save_ > run.save_minutes * 60);
  const int stop = interrupted(StopPlace::step);
  if (team_.size() == 1) return {loss, stop, due};
  std::vector<double> mine = {loss, stop == SIGINT ? 1.0 : 0.0, stop == SIGTERM ? 1.0 : 0.0,
                              due && team_.leads() ? 1.0 : 0.0};
  if (log_now)  // the log shows the terms of a step's last pass
    for (const auto& [name, value] : terms) mine.push_back(last_pass ? value.item<double>() : 0);
  auto all = torch::tensor(mine, at::kDouble);
  team_.sum(all);
  const double* sum = all.data_ptr<double>();
  int64_t index = 4;
  if (log_now)
    for (auto& [name, value] : terms) value = torch::full({}, sum[index++], at::kDouble);
  return {sum[0], sum[2] > 0 ? SIGTERM : sum[1] > 0 ? SIGINT : 0, sum[3] > 0};
}

Trainer::StepDone Trainer::train_step(const SampleSet& set, const Phase& phase) {
  const auto& run = config_.run;
  const int64_t step = at_.step - phase.first, steps = phase.steps;
  optimizer_->zero_grad();
  Terms terms;
  double loss = 0;
  const auto passes = splits_batches() ? Part{0, run.accumulation} : part_of(run.accumulation, team_);
  std::vector<TrainPass> whole;
  if (reaches_over_passes()) {
    for (int64_t micro = passes.begin; micro < passes.end; ++micro)
      whole.push_back(make_pass(set, phase, micro, passes));
    look_over_step(whole);
    for (const auto& pass : whole) loss += train_pass(pass, set, terms);
  } else {
    for (int64_t micro = passes.begin; micro < passes.end; ++micro)
      loss += train_pass(make_pass(set, phase, micro, passes), set, terms);
  }
  team_.sum(optimizer_->gradient());
  const double norm = optimizer_->clip(run.max_grad_norm).item<double>();
  // Before the step: what it would write into the adapters and the optimizer could never be undone.
  if (!std::isfinite(norm)) diverged(cat("the gradient's norm is ", norm), set, rows_of_step(phase, passes));
  const auto warmup = static_cast<int64_t>(run.warmup_ratio * static_cast<double>(steps));
  const double rate = run.schedule == Schedule::cosine ? cosine_rate(run.learning_rate, step, steps, warmup)
                      : step < warmup ? run.learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup)
                                      : run.learning_rate;
  optimizer_->step(rate);
  ++at_.global_step, ++at_.step;
  const bool log_now = at_.step % run.logging_steps == 0 || at_.step == phase.end();
  const auto done = add_up(loss, log_now, passes.end == run.accumulation, terms);
  if (log_now) log_step(phase, done.loss, rate, norm, terms);
  return done;
}

}  // namespace asr
