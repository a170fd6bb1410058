#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <typeinfo>

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "tensor/record.h"
#include "train/schedule.h"

namespace asr {
namespace {

std::string names_of(const SampleSet& set, const std::vector<int64_t>& rows) {
  if (rows.empty()) return "replayed samples";
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 8); ++i) out += (i ? ", " : "") + set.info(rows[i]).id;
  return rows.size() > 8 ? cat(out, " and ", rows.size() - 8, " more") : out;
}

bool is_chosen(const ParameterGroup& group, const Phase& phase) {
  return phase.trains.empty() || std::find(phase.trains.begin(), phase.trains.end(), group.name) != phase.trains.end();
}

}  // namespace

void Loop::start(const Phase& phase, const Checkpoint* restored) {
  sum_.reset();
  std::vector<AdamWGroup> groups;
  trained_.clear();
  for (const auto& group : parts_.groups()) {
    const bool chosen = is_chosen(group, phase);
    AdamWGroup made{{}, group.learning_rate, group.weight_decay};
    for (const auto& [name, tensor] : group.parameters) {
      auto value = tensor;
      value.requires_grad_(chosen);
      if (!chosen) continue;
      made.parameters.push_back(tensor);
      trained_.emplace_back(name, tensor);
    }
    if (chosen) groups.push_back(std::move(made));
  }
  check(!trained_.empty(), "stage ", parts_.at.stage, ", phase '", phase.name, "': there is nothing to train");
  AdamWOptions adam;
  adam.weight_decay = parts_.config.run.weight_decay;
  optimizer_.emplace(groups, adam);
  // A launcher's group of one sums too, so that what several GPUs do can be tried on one.
  if (typeid(parts_.team) != typeid(Team)) {
    std::vector<torch::Tensor> parameters;
    for (const auto& [name, tensor] : trained_) parameters.push_back(tensor);
    sum_.emplace(parts_.team, parameters, optimizer_->gradient());
  }
  if (!restored || parts_.at.in_phase() == 0) return;
  optimizer_->first.copy_(restored->at("optimizer.first", optimizer_->first.sizes()));
  optimizer_->second.copy_(restored->at("optimizer.second", optimizer_->second.sizes()));
  optimizer_->steps = restored->state.value("optimizer_steps", parts_.at.in_phase());
}

// What a phase did not train is there for the next one, and for methods that measure gradients after the stage.
void Loop::stop() {
  sum_.reset();
  optimizer_.reset();
  for (const auto& group : parts_.groups())
    for (const auto& [name, tensor] : group.parameters) {
      auto value = tensor;
      value.requires_grad_(true);
    }
}

bool Loop::splits_batches() const {
  return parts_.team.size() > 1 && parts_.config.run.accumulation % parts_.team.size() != 0;
}

bool Loop::reaches_over_passes() const {
  const auto& run = parts_.config.run;
  return run.geometry_batch == GeometryBatch::global && run.accumulation > 1 && parts_.needs().reference;
}

// This process's samples of a pass; a stand-in where there are fewer samples than processes, or where all are replayed.
// `pass` counts from the phase's beginning.
std::vector<int64_t> Loop::pass_rows(const Phase& phase, int64_t pass, Share& share) const {
  const int64_t batch = pass_room(parts_, phase);
  const auto current = current_samples(pass, batch, parts_.replay_share(parts_.at.stage));
  share.whole = current.size();
  share.room = batch - current.size();
  const auto rows = sequence_rows(parts_, phase, {current.begin, std::max(current.begin + 1, current.end)});
  const auto mine = part_of(share.whole, share.team);
  share.positions = range(mine.begin, mine.end);
  if (mine.size() == 0) return {rows[0]};
  return {rows.begin() + mine.begin, rows.begin() + mine.end};
}

// This process's samples of the step in hand.
std::vector<int64_t> Loop::rows_of_step(const Phase& phase, Part passes) const {
  std::vector<int64_t> out;
  for (int64_t micro = passes.begin; micro < passes.end; ++micro) {
    Share share{splits_batches() ? parts_.team : alone_};
    const auto rows = pass_rows(phase, parts_.at.in_phase() * parts_.config.run.accumulation + micro, share);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

void Loop::diverged(const std::string& what, const std::string& names) const {
  fail_system(what, " at step ", parts_.at.step + 1, " of stage ", parts_.at.stage, ", batch of ", names,
              "; the step was not taken, and the last checkpoint is of step ", saved_step,
              ": look at these samples, or go on from there with --resume and a lower learning_rate (for this run "
              "alone: --set method=",
              parts_.key.composition, " --set learning_rate=...; the change is recorded)");
}

// What only all processes together know of a batch: what is learnt of it, its longest text, who holds which rows.
void Loop::complete_share(Share& share, SampleBatch& batch) const {
  if (share.team.size() == 1) return;
  const auto held = static_cast<int64_t>(share.positions.size());
  const int64_t learnt = held == 0 ? 0 : parts_.objective->learnt(batch);
  const auto all = share.team.gather(torch::tensor({held, learnt, batch.input.ids.size(1)}, at::kLong).view({1, 3}));
  const auto total = all.sum(0);
  share.before = all.narrow(0, 0, share.team.rank()).select(1, 0).sum().item<int64_t>();
  share.samples = static_cast<double>(held) / total[0].item<double>();
  share.answers = static_cast<double>(learnt) / total[1].item<double>();
  batch.input = padded(std::move(batch.input), all.select(1, 2).max().item<int64_t>());
}

AdapterDropout Loop::pass_dropout(const TrainPass& pass) const {
  AdapterDropout out{parts_.config.run.lora_dropout,
                     Random({parts_.seed(), 0xd409, static_cast<uint64_t>(parts_.at.stage),
                             static_cast<uint64_t>(parts_.at.step), static_cast<uint64_t>(pass.micro)})
                         .next()};
  const auto& positions = pass.share.positions;
  if (pass.share.team.size() == 1) return out;
  out.positions = positions.empty() ? range(0, 1) : positions;
  const auto device = parts_.model.device();
  if (device.is_cuda()) out.positions_there = torch::tensor(out.positions, at::kLong).to(device);
  return out;
}

// The product of what the methods give; undefined: all alike.
torch::Tensor Loop::sample_weights(const SampleBatch& batch) const {
  torch::Tensor out;
  for (const auto& method : parts_.methods)
    if (const auto weights = method->sample_weights(batch); weights.defined())
      out = out.defined() ? out * weights : weights;
  return out;
}

torch::Tensor Loop::pass_loss(const TrainPass& pass, const Phase& phase, Terms& terms) {
  const auto& run = parts_.config.run;
  const auto& objective = *parts_.objective;
  auto batch = pass.batch;
  const auto wanted = parts_.needs();
  Output out;
  std::vector<std::pair<torch::Tensor, double>> losses;
  if (phase.runs_model) {
    auto dropout = pass_dropout(pass);
    auto routed = parts_.pass_for(batch, false);
    routed.how.dropout = run.lora_dropout > 0 ? &dropout : nullptr;
    Want want;
    want.loss = false;
    want.tap_layers = wanted.tap ? run.tap_layers : 0;
    want.pooled = wanted.pooled;
    if (wanted.logits) objective.ask_for_logits(want);
    if (phase.task_weight != 0) objective.ask_for_loss(want);
    const auto weights = sample_weights(batch);
    if (weights.defined() && phase.task_weight != 0) objective.ask_for_logits(want);
    batch = routed.seen(std::move(batch));
    out = parts_.model.forward(batch.input, routed.pass(), want);
    if (phase.task_weight != 0) {
      out.loss = objective.loss(out, batch, weights);
      losses.emplace_back(scaled(out.loss, weights.defined() ? pass.share.samples : pass.share.answers),
                          phase.task_weight);
      terms["task_loss"] = losses[0].first.detach();
    }
    if (wanted.logits) out.logits = objective.logits(out);
  }
  const auto logits = [&](const Pass& other, const std::vector<torch::Tensor>& parameters) {
    return objective.logits_of(parts_.model, batch, other, parameters);
  };
  StepContext context{trained_,   parts_.model, parts_.bank, objective, phase,  batch,      pass.rows,
                      pass.share, out,          logits,      terms,     losses, pass.first, run.accumulation};
  for (size_t m = 0; m < parts_.methods.size(); ++m)
    if (phase.of_method.empty() || phase.of_method == parts_.method_names[m]) parts_.methods[m]->add_losses(context);
  check(!losses.empty(), "stage ", parts_.at.stage, ", phase '", phase.name, "': there is no loss");
  return losses.size() == 1 && losses[0].second == 1 ? losses[0].first : weighted_sum(losses);
}

Loop::TrainPass Loop::make_pass(const SampleSet& set, const Phase& phase, int64_t micro, Part passes) {
  const auto& run = parts_.config.run;
  const auto& at = parts_.at;
  TrainPass out{{}, {splits_batches() ? parts_.team : alone_}, {}, micro};
  const int64_t now_at = at.in_phase() * run.accumulation + micro;
  out.last = micro + 1 == passes.end;
  out.rows = pass_rows(phase, now_at, out.share);
  if (!phase.runs_model) {
    const auto mine = part_of(out.share.whole, out.share.team);
    out.share.before = mine.begin;
    out.share.samples = static_cast<double>(mine.size()) / static_cast<double>(out.share.whole);
    out.share.answers = out.share.samples;
    return out;
  }
  out.batch = set.training_rows(out.rows, augmentation_key(parts_, phase, now_at));
  // The passes of this process that come next, in this step and the following ones.
  for (int64_t ahead = 1; ahead <= run.workers; ++ahead) {
    const int64_t later = micro - passes.begin + ahead;
    const int64_t pass =
        (at.in_phase() + later / passes.size()) * run.accumulation + passes.begin + later % passes.size();
    if (pass >= phase.steps * run.accumulation) break;
    Share other{out.share.team};
    set.prefetch(pass_rows(phase, pass, other), augmentation_key(parts_, phase, pass));
  }
  if (run.augments() && parts_.needs().reference) add_reference(out.batch, parts_.model);
  const uint64_t key = Random({parts_.seed(), 0x313, static_cast<uint64_t>(at.stage), static_cast<uint64_t>(at.step),
                               static_cast<uint64_t>(micro)})
                           .next();
  if (phase.of_method.empty()) mix(out, key);
  complete_share(out.share, out.batch);
  return out;
}

// What changes the stage's own samples comes before what adds those of other stages.
void Loop::mix(TrainPass& pass, uint64_t key) {
  auto& share = pass.share;
  const bool replaced = share.whole > 0 && share.positions.empty();
  for (const bool keeps_samples : {false, true})
    for (auto& method : parts_.methods)
      if ((method->keeps() == Keeps::samples) == keeps_samples) method->mix_batch(pass.batch, share, parts_.model, key);
  // Where replayed samples took the place of a stand-in, the batch has none of the stage's own. If no process has any,
  // the stand-in's row stays in all of them: a pass that lacked terms would log less than the others of its step.
  if (replaced && !share.positions.empty()) pass.rows.clear();
}

// Embeddings of all samples of the step, without gradient but with the dropout that their training passes will have.
// How they are ordered among the processes does not matter, as long as all know where their own stand.
void Loop::look_over_step(std::vector<TrainPass>& passes) {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  want.pooled = true;
  std::vector<torch::Tensor> rows;
  int64_t held = 0;
  for (auto& pass : passes) {
    pass.first = held;
    auto dropout = pass_dropout(pass);
    if (pass.share.positions.empty()) continue;  // a stand-in
    auto routed = parts_.pass_for(pass.batch, false);
    routed.how.dropout = parts_.config.run.lora_dropout > 0 ? &dropout : nullptr;
    const auto out = parts_.model.forward(routed.seen(pass.batch).input, routed.pass(), want);
    rows.push_back(at::cat({out.image, out.text, pass.batch.reference_image, pass.batch.reference_text}, 1));
    held += rows.back().size(0);
  }
  const auto counts = parts_.team.gather(torch::full({1}, held, at::kLong));
  const auto before = counts.narrow(0, 0, parts_.team.rank()).sum().item<int64_t>();
  for (auto& pass : passes) pass.first += before;
  const auto none = at::empty({0}, at::device(parts_.model.device()).dtype(at::kFloat));
  const auto all = parts_.team.gather(rows.empty() ? none : at::cat(rows)).chunk(4, 1);
  const at::AutoGradMode with_gradient(true);
  for (auto& method : parts_.methods) method->whole_step({all[0], all[1], all[2], all[3]});
}

// A pass forward and backward.
Loop::OpenLoss Loop::train_pass(const TrainPass& pass, const SampleSet& set, const Phase& phase, Terms& terms) {
  const int64_t passes = parts_.config.run.accumulation;
  const auto total = pass_loss(pass, phase, terms);
  if (sum_ && pass.last) sum_->overlap();
  (passes > 1 ? total / static_cast<double>(passes) : total).backward();
  return {total.detach(), [&set, rows = pass.rows] { return names_of(set, rows); }};
}

double Loop::rate_of(const Phase& phase, double peak) const {
  const auto& run = parts_.config.run;
  const int64_t step = parts_.at.in_phase(), steps = phase.steps;
  const auto warmup = static_cast<int64_t>(run.warmup_ratio * static_cast<double>(steps));
  if (run.schedule == Schedule::cosine && !phase.constant_rate) return cosine_rate(peak, step, steps, warmup);
  return step < warmup ? peak * static_cast<double>(step + 1) / static_cast<double>(warmup) : peak;
}

// Sums over processes, methods' edits, clipping, the step. `names` are the samples that the gradient is of.
Loop::Applied Loop::apply_gradients(const Phase& phase, const std::vector<OpenLoss>& losses, const Names& names) {
  const auto& run = parts_.config.run;
  if (sum_) sum_->finish();
  GradientContext context{parts_.at.stage, parts_.at.in_phase(), phase, parts_.bank, trained_};
  for (auto& method : parts_.methods) method->after_backward(context);
  std::vector<torch::Tensor> open = {optimizer_->clip(run.max_grad_norm).to(at::kDouble)};
  for (const auto& loss : losses) open.push_back(loss.value.to(at::kDouble).squeeze());
  const auto known = at::stack(open).cpu();
  const double* values = known.data_ptr<double>();
  Applied out{0, values[0], sum_ ? sum_->waited() : 0};
  // Before the step: what it would write into the adapters and the optimizer could never be undone.
  for (size_t i = 0; i < losses.size(); ++i) {
    if (!std::isfinite(values[i + 1])) diverged(cat("the loss is ", values[i + 1]), losses[i].names());
    out.loss += values[i + 1] / static_cast<double>(run.accumulation);
  }
  if (!std::isfinite(out.norm)) diverged(cat("the gradient's norm is ", out.norm), names());
  optimizer_->step(rate_of(phase, phase.learning_rate > 0 ? phase.learning_rate : run.learning_rate),
                   rate_of(phase, 1));
  for (auto& method : parts_.methods) method->after_step(context);
  return out;
}

// Batches of methods between steps, each with a step of its own under the same optimizer and rate.
void Loop::extra_steps(const Phase& phase) {
  for (size_t m = 0; m < parts_.methods.size(); ++m) {
    const uint64_t key = Random({parts_.seed(), 0xe817a, static_cast<uint64_t>(parts_.at.stage),
                                 static_cast<uint64_t>(parts_.at.step), m})
                             .next();
    std::vector<OpenLoss> losses;
    Terms terms;
    const int64_t passes = parts_.config.run.accumulation;
    const Names names = [&] { return cat("batch of method ", parts_.method_names[m]); };
    for (int64_t k = 0; k < passes; ++k) {
      OwnBatch own{{}, {parts_.team}, k, passes};
      if (!parts_.methods[m]->extra_batch(own, parts_.model, key)) break;
      if (k == 0) optimizer_->zero_grad();
      complete_share(own.share, own.batch);
      parts_.at.samples += own.share.whole;
      TrainPass pass{std::move(own.batch), std::move(own.share), {}, passes + k};
      const auto total = scaled(pass_loss(pass, phase, terms), own.part);
      if (sum_ && passes == 1) sum_->overlap();
      total.backward();
      losses.push_back({total.detach(), names});
    }
    if (!losses.empty()) apply_gradients(phase, losses, names);
  }
}

// Sums over the processes: the loss, whether one was told to stop or process 0 wants to save, and what is logged.
Loop::Done Loop::add_up(double loss, bool log_now, bool last_pass, bool save_wanted, Terms& terms) {
  Done out;
  const int stop = interrupted(StopPlace::step);
  if (parts_.team.size() == 1) {
    out.loss = loss;
    out.stop = stop;
    out.save_due = save_wanted;
    if (log_now) out.terms = terms;
    return out;
  }
  std::vector<double> mine = {loss, stop == SIGINT ? 1.0 : 0.0, stop == SIGTERM ? 1.0 : 0.0,
                              save_wanted && parts_.team.leads() ? 1.0 : 0.0};
  if (log_now)  // the log shows the terms of a step's last pass
    for (const auto& [name, value] : terms) mine.push_back(last_pass ? value.item<double>() : 0);
  auto all = torch::tensor(mine, at::kDouble);
  parts_.team.sum(all);
  const double* sum = all.data_ptr<double>();
  int64_t index = 4;
  if (log_now)
    for (auto& [name, value] : terms) out.terms[name] = torch::full({}, sum[index++], at::kDouble);
  out.loss = sum[0];
  out.stop = sum[2] > 0 ? SIGTERM : sum[1] > 0 ? SIGINT : 0;
  out.save_due = sum[3] > 0;
  return out;
}

Loop::Done Loop::step(const SampleSet& set, const Phase& phase, bool save_wanted) {
  const auto& run = parts_.config.run;
  auto& at = parts_.at;
  const double begin = now();
  optimizer_->zero_grad();
  Terms terms;
  std::vector<OpenLoss> losses;
  const auto passes = splits_batches() ? Part{0, run.accumulation} : part_of(run.accumulation, parts_.team);
  if (reaches_over_passes() && phase.runs_model) {
    std::vector<TrainPass> whole;
    for (int64_t micro = passes.begin; micro < passes.end; ++micro)
      whole.push_back(make_pass(set, phase, micro, passes));
    look_over_step(whole);
    for (const auto& pass : whole) losses.push_back(train_pass(pass, set, phase, terms));
  } else {
    for (int64_t micro = passes.begin; micro < passes.end; ++micro)
      losses.push_back(train_pass(make_pass(set, phase, micro, passes), set, phase, terms));
  }
  const double rate = rate_of(phase, phase.learning_rate > 0 ? phase.learning_rate : run.learning_rate);
  const auto applied = apply_gradients(phase, losses, [&] { return names_of(set, rows_of_step(phase, passes)); });
  if (phase.runs_model) {
    ++at.model_steps;
    at.samples += (phase.batch > 0 ? phase.batch : run.batch) * run.accumulation;
  } else {
    at.other_seconds += now() - begin;
  }
  extra_steps(phase);
  ++at.global_step;
  ++at.step;
  const bool log_now = at.step % run.logging_steps == 0 || at.in_phase() == phase.steps;
  const bool due = save_wanted || (run.save_steps > 0 && at.global_step % run.save_steps == 0);
  auto done = add_up(applied.loss, log_now, passes.end == run.accumulation, due, terms);
  done.rate = rate;
  done.norm = applied.norm;
  done.waited = applied.waited;
  return done;
}

}  // namespace asr
