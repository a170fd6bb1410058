// One optimizer step, on this process's part of it. Where several processes train together, passes of an accumulated
// step are dealt out whole if they come out even, and every pass is split otherwise; in both cases the gradients of the
// processes add up to that of one process with the whole step.
#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "methods/long_pass.h"
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

// What only all processes together know of a batch: its answers, its longest text, who holds which rows.
void Trainer::complete_share(Share& share, Batch& batch) const {
  if (share.team.size() == 1) return;
  const auto held = static_cast<int64_t>(share.positions.size());
  const int64_t answers = head_ || held == 0 ? held : batch.labels.ge(0).sum().item<int64_t>();
  const auto all = share.team.gather(torch::tensor({held, answers, batch.ids.size(1)}, at::kLong).view({1, 3}));
  const auto total = all.sum(0);
  share.before = all.narrow(0, 0, share.team.rank()).select(1, 0).sum().item<int64_t>();
  share.samples = static_cast<double>(held) / total[0].item<double>();
  share.answers = static_cast<double>(answers) / total[1].item<double>();
  batch = padded(std::move(batch), all.select(1, 2).max().item<int64_t>());
}

torch::Tensor Trainer::batch_loss(const Batch& batch, const Share& share, const std::vector<int64_t>& rows,
                                  const SampleSet& set, int64_t step, int64_t micro, Terms& terms) {
  const auto& run = config_.run;
  const auto wanted = needs();
  AdapterDropout dropout{run.lora_dropout,
                         Random({static_cast<uint64_t>(key_.seed), 0xd409, static_cast<uint64_t>(at_.stage),
                                 static_cast<uint64_t>(step), static_cast<uint64_t>(micro)})
                             .next()};
  if (share.team.size() > 1) dropout.positions = share.positions.empty() ? range(0, 1) : share.positions;
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
  std::vector<std::pair<torch::Tensor, double>> losses = {{scaled(out.loss, share.answers), 1}};
  terms["task_loss"] = losses[0].first.detach();
  const auto logits = [&](const Pass& other) {
    Want only;
    only.loss = false, only.logits = !head_, only.state = head_.has_value();
    const auto result = model_.forward(batch, other, only);
    return head_ ? head_->logits(result.state) : result.logits;
  };
  StepContext context{parameters_, batch, share, out, logits, terms, losses};
  for (auto& method : methods_) method->add_losses(context);
  return losses.size() == 1 ? losses[0].first : weighted_sum(losses);
}

// A pass forward and backward; returns this process's summand of its loss.
double Trainer::train_pass(const SampleSet& set, const Phase& phase, int64_t micro, Part passes, Terms& terms) {
  const auto& run = config_.run;
  const int64_t step = at_.step, in_phase = step - phase.first;
  Share share{splits_batches() ? team_ : alone_};
  // Only the paper's recipe augments; every pass over the data draws anew.
  const auto augment = [&](int64_t pass) -> std::optional<uint64_t> {
    if (run.recipe != Recipe::asr_paper) return std::nullopt;
    return Random({static_cast<uint64_t>(key_.seed), 0xa496, static_cast<uint64_t>(at_.stage),
                   static_cast<uint64_t>(phase.first * run.accumulation + pass)})
        .next();
  };
  const int64_t now_at = in_phase * run.accumulation + micro;
  const auto rows = pass_rows(phase, now_at, share);
  auto batch = set.training_rows(rows, augment(now_at));
  // The passes of this process that come next, in this step and the following ones.
  for (int64_t ahead = 1; ahead <= run.workers; ++ahead) {
    const int64_t later = micro - passes.begin + ahead,
                  pass = (in_phase + later / passes.size()) * run.accumulation + passes.begin + later % passes.size();
    if (pass >= phase.steps * run.accumulation) break;
    Share other{share.team};
    set.prefetch(pass_rows(phase, pass, other), augment(pass));
  }
  const uint64_t key = Random({static_cast<uint64_t>(key_.seed), 0x313, static_cast<uint64_t>(at_.stage),
                               static_cast<uint64_t>(step), static_cast<uint64_t>(micro)})
                           .next();
  for (auto& method : methods_) method->mix_batch(batch, share, model_, key);
  complete_share(share, batch);
  const auto total = batch_loss(batch, share, rows, set, step, micro, terms);
  const double value = total.item<double>();
  if (!std::isfinite(value))
    fail_system("the loss is ", value, " at step ", step + 1, " of stage ", at_.stage, ", batch of ",
                names_of(set, rows),
                "; nothing later was saved: lower learning_rate or look at these samples, then --resume");
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
  for (int64_t micro = passes.begin; micro < passes.end; ++micro) loss += train_pass(set, phase, micro, passes, terms);
  team_.sum(optimizer_->gradient());
  const auto norm = optimizer_->clip(run.max_grad_norm);
  const auto warmup = static_cast<int64_t>(run.warmup_ratio * static_cast<double>(steps));
  const double rate = run.schedule == Schedule::cosine ? cosine_rate(run.learning_rate, step, steps, warmup)
                      : step < warmup ? run.learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup)
                                      : run.learning_rate;
  optimizer_->step(rate);
  ++at_.global_step, ++at_.step;
  const bool log_now = at_.step % run.logging_steps == 0 || at_.step == phase.end();
  const auto done = add_up(loss, log_now, passes.end == run.accumulation, terms);
  if (log_now) log_step(phase, done.loss, rate, norm.item<double>(), terms);
  return done;
}

}  // namespace asr
