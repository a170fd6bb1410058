// Fake methods that change what a sample is: vectors in its sequence, its weight, what is learnt of it, and which
// samples a stage takes.
#pragma once

#include <algorithm>

#include "data/drawn_rows.h"
#include "data/list_objective.h"
#include "tests/methods/fake_diary.h"

namespace asr {

// Two vectors after the visual tokens, one that is trained and one that is the mean of the sample's own question; and
// samples count by the length of their question.
class FakeInserted final : public FakeMethod {
 public:
  void prepare(Backbone& model, const Options&) override {
    own_ = torch::full({model.width()}, 0.1, at::device(model.device()).dtype(at::kFloat));
  }
  std::vector<ParameterGroup> parameters() override { return {{"inserted", {{"fake.inserted", own_}}}}; }
  void route(RouteContext& context) override {
    if (!context.inserted) return;
    const auto question = question_of(context.model, context.batch);
    *context.inserted = at::stack({own_.expand_as(question), question}, 1);
  }
  std::string answers_with() const override { return "vectors that a test inserts"; }
  torch::Tensor sample_weights(const SampleBatch& batch) const override {
    std::vector<float> out;
    for (const auto& info : batch.info) out.push_back(static_cast<float>(info.question.size()) / 30);
    return torch::tensor(out).to(batch.input.ids.device());
  }
  void add_losses(StepContext& step) override {
    auto& numbers = fake_diary().numbers;
    const auto& inserted = step.batch.input.inserted;
    numbers["inserted"].push_back(inserted.defined() ? static_cast<double>(inserted.size(1)) : 0);
    numbers["loss"].push_back(step.output.loss.item<double>());
    numbers["loss by hand"].push_back(weighted_loss(step));
  }
  void state(StateVisitor& visitor) override { visitor.tensor("inserted", StateKind::adapter, own_); }
  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    return {{"inserted", StateKind::adapter, {sizes.widest_site}}};
  }

 private:
  static torch::Tensor question_of(const Backbone& model, const SampleBatch& batch) {
    at::NoGradGuard no_grad;
    Want want;
    want.loss = false;
    want.early = true;
    return model.forward(batch.input, Pass{0, nullptr}, want).text_input.to(at::kFloat);
  }
  // Sample by sample, in a pass of its own without adapters' dropout: the weight times the mean over its answer tokens.
  static double weighted_loss(const StepContext& step) {
    at::NoGradGuard no_grad;
    Pass pass;
    pass.slots = step.bank.training();
    Want want;
    want.loss = false;
    want.logits = true;
    const auto logits = step.model.forward(step.batch.input, pass, want).logits.to(at::kDouble).log_softmax(1);
    const auto& labels = step.batch.input.labels;
    double sum = 0;
    int64_t token = 0;
    for (int64_t row = 0; row < labels.size(0); ++row) {
      const auto answer = labels[row].masked_select(labels[row].ge(0));
      const auto mine = logits.narrow(0, token, answer.size(0));
      token += answer.size(0);
      const auto weight = static_cast<double>(step.batch.info[static_cast<size_t>(row)].question.size()) / 30;
      sum -= weight * mine.gather(1, answer.unsqueeze(1)).mean().item<double>();
    }
    return sum / static_cast<double>(labels.size(0));
  }

  torch::Tensor own_;  // [width]
};

// Answers of a list, by the cosine between the state before the answer and a row that is trained.
class FakeList final : public ListObjective {
 public:
  FakeList(const Backbone& model, std::vector<std::string> list)
      : ListObjective(std::move(list)), rows_(mean_embeddings(model).requires_grad_()) {}

  torch::Tensor loss(const Output& output, const SampleBatch& batch, const torch::Tensor& weights) const override {
    const auto each = at::cross_entropy_loss(logits(output, {}), targets(batch), {}, at::Reduction::None);
    return weights.defined() ? (each * weights).mean() : each.mean();
  }
  torch::Tensor logits(const Output& output, const std::vector<torch::Tensor>& parameters) const override {
    const auto unit = [](const torch::Tensor& x) { return x / x.norm(2, 1, true).clamp_min(1e-6); };
    return 10 * at::linear(unit(output.state.to(at::kFloat)), unit(parameters.empty() ? rows_ : parameters[0]));
  }
  torch::Tensor targets(const SampleBatch& batch) const override {
    std::vector<int64_t> out;
    for (const auto& info : batch.info) out.push_back(place_of(info.answer));
    return torch::tensor(out, at::kLong).to(rows_.device());
  }
  NamedParameters parameters() const override { return {{"fake.rows", rows_}}; }

 private:
  torch::Tensor rows_;  // [list, width]
};

// That objective, learnt from half of a stage's samples, each of which is there twice.
class FakeObjective final : public FakeMethod {
 public:
  bool chooses_answers() const override { return true; }
  std::unique_ptr<Objective> objective(const ObjectiveContext& run) override {
    std::vector<std::string> list;
    for (const auto& [answer, count] : run.answers()) list.push_back(answer);
    return std::make_unique<FakeList>(run.model, std::move(list));
  }
  std::shared_ptr<SampleSet> training_set(StageContext& stage) override {
    const auto host = chosen_.cpu();
    std::vector<int64_t> rows(host.data_ptr<int64_t>(), host.data_ptr<int64_t>() + host.numel());
    rows.insert(rows.end(), rows.begin(), rows.end());
    return stage.data.subset(rows);
  }
  void add_losses(StepContext& step) override {
    for (const auto& info : step.batch.info) fake_diary().calls.push_back("took " + info.id);
  }
  void state(StateVisitor& visitor) override { visitor.tensor("chosen", StateKind::statistics, chosen_); }
  std::vector<StateShape> kept(const StateSizes&) const override {
    return {{"chosen", StateKind::statistics, {kAnySize}, Lasts::stage}};
  }

 protected:
  // Drawn once a stage: a run that goes on must find what was drawn.
  void change_slots(StageContext& stage) override {
    const auto key = draw_key(DrawPurpose::probe, stage.seed, stage.stage);
    chosen_ = torch::tensor(drawn_rows(stage.data.size(), stage.data.size() / 2, key), at::kLong);
  }
  void finish(StageContext&) override { chosen_ = torch::Tensor(); }

 private:
  torch::Tensor chosen_;
};

}  // namespace asr
