// A fake method for every hook of the loop.
#pragma once

#include "data/replay_buffer.h"
#include "tests/methods/fake_diary.h"
#include "tests/methods/fake_gates.h"

namespace asr {

// Counts what it is asked for, adds a term and keeps one tensor where it is.
class FakeHooks final : public FakeMethod {
 public:
  void before_stage(StageContext&) override { fake_diary().calls.push_back("before_stage"); }
  void begin_phase(StageContext&, const Phase&) override {
    fake_diary().calls.push_back("begin_phase");
    ++counts_[0];
  }
  void add_losses(StepContext& step) override {
    ++counts_[1];
    const auto& b = step.parameters.at(1).second;
    step.add("fake_loss", (b - 1).square().mean() * step.share.process(), 0.25);
  }
  void after_backward(GradientContext& context) override {
    ++counts_[2];
    const auto& first = context.parameters.at(0).second;
    fake_diary().numbers["gradient"].push_back(first.grad().abs().max().item<double>());
    first.grad().zero_();
  }
  void after_step(GradientContext& context) override {
    ++counts_[3];
    fake_diary().numbers["step"].push_back(static_cast<double>(context.step));
  }
  void state(StateVisitor& visitor) override {
    for (size_t i = 0; i < 4; ++i) visitor.number("count" + std::to_string(i), StateKind::statistics, counts_[i]);
  }
  std::vector<StateShape> kept(const StateSizes&) const override { return {{"count*", StateKind::statistics, {1}}}; }

 private:
  int64_t counts_[4] = {0, 0, 0, 0};
};

// Three phases: `warm` trains its own numbers by its own term alone, then the stage as always without them, then `fit`
// fits them to what was measured of the stage's samples, without a pass of the model, until it is told to stop.
class FakePhases final : public FakeMethod {
 public:
  void prepare(Backbone& model, const Options&) override { own_ = own_.to(model.device()); }
  std::vector<ParameterGroup> parameters() override { return {{"own", {{"fake.own", own_}}}}; }
  void plan(const PhasePlan& stage, std::vector<Phase>& phases) const override {
    for (auto& phase : phases) phase.trains = {"adapters", "task"};
    Phase warm;
    warm.name = "warm";
    warm.trains = {"own"};
    warm.task_weight = 0;
    warm.constant_rate = true;
    warm.learning_rate = 0.5;
    warm.batch = 4;
    warm.steps = 2;
    phases.insert(phases.begin(), warm);
    auto fit = warm;
    fit.name = "fit";
    fit.runs_model = false;
    fit.rows = range(0, stage.samples / 2);
    fit.steps = 9;
    phases.push_back(fit);
  }
  // What `fit` reads must be there after a resume, too.
  void before_stage(StageContext& stage) override {
    measured_ = fake_statistics(stage.model, stage.data.rows(range(0, stage.data.size())));
  }
  void route(RouteContext& context) override { routed_ += static_cast<double>(context.batch.size()); }
  void begin_phase(StageContext&, const Phase& phase) override {
    fake_diary().calls.push_back("phase " + phase.name);
    routed_ = 0;
  }
  void add_losses(StepContext& step) override {
    if (step.phase.name.empty()) return;
    auto& seen = fake_diary().numbers[step.phase.name];
    seen.push_back(static_cast<double>(step.rows.size()));
    if (step.phase.name == "warm") {
      step.add("warm_loss", (own_ - 1).square().mean() * step.share.process());
      return;
    }
    const auto rows = measured_.index_select(0, torch::tensor(step.rows));
    step.add("fit_loss", (own_ - rows).square().mean() * step.share.samples);
  }
  bool phase_done(const Phase& phase, int64_t steps, double loss) override {
    if (phase.name != "fit") return false;
    fake_diary().numbers["fit_loss"].push_back(loss);
    return steps == 3;
  }
  void state(StateVisitor& visitor) override { visitor.tensor("own", StateKind::adapter, own_); }
  std::vector<StateShape> kept(const StateSizes&) const override { return {{"own", StateKind::adapter, {3}}}; }

 private:
  torch::Tensor own_ = torch::zeros({3}), measured_;
  double routed_ = 0;
};

// Old samples, mixed into every batch, three more or in the room that it has for them, or as batches between the steps.
enum class FakeReplayBy { mixing, share, extra_batches };
class FakeReplay final : public FakeMethod {
 public:
  explicit FakeReplay(FakeReplayBy by) : by_(by) {}
  Keeps keeps() const override { return Keeps::samples; }
  bool combines_with(const Method& other) const override { return other.keeps() != Keeps::samples; }
  void before_stage(StageContext& stage) override { buffer_.open(stage.data); }
  double replay_share(int stage) const override { return by_ == FakeReplayBy::share && stage > 1 ? 0.25 : 0; }
  void mix_batch(SampleBatch& batch, Share& share, const Backbone& model, uint64_t key) override {
    if (by_ == FakeReplayBy::extra_batches || buffer_.size() == 0) return;
    const auto rows = buffer_.draw(by_ == FakeReplayBy::share ? share.room : 3, key);
    if (by_ == FakeReplayBy::share) share.room -= static_cast<int64_t>(rows.size());
    const auto mine = part_of(static_cast<int64_t>(rows.size()), share.team);
    const int64_t first = share.whole + mine.begin;
    share.whole += static_cast<int64_t>(rows.size());
    if (mine.size() == 0) return;
    auto old = drawn(rows, mine, model, batch.input.features.defined());
    batch = share.positions.empty() ? old : join(batch, old);
    for (const int64_t position : range(first, first + mine.size())) share.positions.push_back(position);
  }
  // After every second step.
  bool extra_batch(OwnBatch& own, const Backbone& model, uint64_t key) override {
    if (by_ != FakeReplayBy::extra_batches || buffer_.size() == 0 || ++asked_ % 2 == 1) return false;
    const auto rows = buffer_.draw(4, key);
    const auto mine = part_of(static_cast<int64_t>(rows.size()), own.share.team);
    own.share.whole = static_cast<int64_t>(rows.size());
    own.share.positions = range(mine.begin, mine.end);
    own.batch = drawn(rows, mine.size() > 0 ? mine : Part{0, 1}, model, true);
    return true;
  }
  void add_losses(StepContext& step) override {
    double old = 0;
    for (const auto& info : step.batch.info) old += info.stage == 1 ? 1 : 0;
    fake_diary().numbers["first stage's"].push_back(old);
    fake_diary().numbers["samples"].push_back(static_cast<double>(step.batch.size()));
  }
  void state(StateVisitor& visitor) override {
    buffer_.state(visitor);
    visitor.number("asked", StateKind::statistics, asked_);
  }
  std::vector<StateShape> kept(const StateSizes&) const override {
    constexpr int64_t any = kAnySize;
    return {{"pictures", StateKind::sample, {any}},       {"picture_ends", StateKind::sample, {any}},
            {"posterior", StateKind::sample, {any, any}}, {"texts", StateKind::question, {any}},
            {"stage", StateKind::sample, {any}},          {"asked", StateKind::statistics, {1}}};
  }

 protected:
  void finish(StageContext& stage) override { buffer_.share_out(stage.data, {6, stage.stage, stage.seed}, stage.team); }

 private:
  SampleBatch drawn(const std::vector<int64_t>& rows, Part mine, const Backbone& model, bool features) const {
    auto out = buffer_.rows({rows.begin() + mine.begin, rows.begin() + mine.end});
    if (!features || model.image_size() == 0) return out;
    at::NoGradGuard no_grad;
    out.input.features = model.encode_images(out.input.pixels);
    out.input.pixels = torch::Tensor();
    return out;
  }

  FakeReplayBy by_;
  ReplayBuffer buffer_;
  int64_t asked_ = 0;
};

// A term over all samples of a step: the squared length of the mean text embedding.
class FakeWholeStep final : public FakeMethod {
 public:
  Needs needs(int) const override {
    Needs out;
    out.pooled = out.reference = true;
    return out;
  }
  void whole_step(const StepEmbeddings& all) override { all_ = all.text; }
  void add_losses(StepContext& step) override {
    auto& diary = fake_diary();
    const auto count = static_cast<double>(all_.size(0));
    diary.numbers["samples of a step"].push_back(count);
    if (step.share.positions.empty()) return;
    const auto mine = all_.narrow(0, step.first, step.output.text.size(0));
    diary.numbers["far from its row"].push_back((mine - step.output.text.detach()).abs().max().item<double>());
    // d |m|^2 = 2 m dm, and each pass counts for 1 / passes of the step.
    const auto slope = all_.mean(0) * (2 / count * static_cast<double>(step.passes));
    step.add("whole_loss", (step.output.text * slope).sum(), 1e-3);
  }

 private:
  torch::Tensor all_;
};

}  // namespace asr
