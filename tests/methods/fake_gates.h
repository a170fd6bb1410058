// A fake method for every gate: three experts a site, and how they are weighed.
#pragma once

#include "tests/methods/fake_diary.h"

namespace asr {

class FakeGated : public FakeMethod {
 public:
  FakeGated(const GateLayout& training, const GateLayout& answering) : training_(training), answering_(answering) {}
  explicit FakeGated(const GateLayout& both) : FakeGated(both, both) {}

  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>&, const SlotLayout& plain, int) const override {
    auto slot = plain;
    for (auto& site : slot.sites) {
      site.rank = 2;
      site.experts = 3;
      site.training = training_;
      site.answering = answering_;
    }
    return AdapterLayout{slot};
  }

 protected:
  GateLayout training_, answering_;
};

inline GateLayout fake_router(RouterReads reads, int64_t top_k = 0, double share = 1) {
  return {GateKind::router, reads, top_k, share};
}

// One number an expert, the same for all samples.
class FakeGiven final : public FakeGated {
 public:
  FakeGiven() : FakeGated(GateLayout{GateKind::given, RouterReads::token, 0, 1}) {}
  void route(RouteContext& context) override {
    const double last = context.stage == 1 ? 0 : 1.5;
    context.given[context.bank.number(kTrainedSlot)] = torch::tensor({0.5, 1.0, last}, at::kFloat);
  }
};

// Statistics of a base pass over the sample, made before the pass that is weighed by them. [B, 3]
inline torch::Tensor fake_statistics(const Backbone& model, const SampleBatch& batch) {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  want.pooled = true;
  const auto out = model.forward(batch.input, Pass{0, nullptr}, want);
  return out.text.narrow(1, 0, 3).to(at::kFloat).softmax(1);
}

class FakeGivenBySample final : public FakeGated {
 public:
  explicit FakeGivenBySample(const GateLayout& gate) : FakeGated(gate) {}
  void route(RouteContext& context) override {
    context.given[context.bank.number(kTrainedSlot)] = fake_statistics(context.model, context.batch);
  }
};

// Weights by keys: an expert counts by the cosine between its key and what enters the language model for the sample,
// the picture before it and the question after one layer, neither of which takes the model's other layers. An expert's
// key is the mean over its part of the first stage's samples; later stages move it.
class FakeKeys final : public FakeGated {
 public:
  FakeKeys() : FakeGated(GateLayout{GateKind::given, RouterReads::token, 0, 1}) {}

  void visit(OptionVisitor& visitor) override { visitor("sharpness", sharpness_, 0, 1000, "of the softmax"); }

  // [B, 2 width]: both halves of length 1, or zeros
  static torch::Tensor looked_at(const Backbone& model, const SampleBatch& batch) {
    at::NoGradGuard no_grad;
    Want want;
    want.loss = false;
    want.early = true;
    want.early_layer = 1;
    const auto out = model.forward(batch.input, Pass{0, nullptr}, want);
    const auto unit = [](const torch::Tensor& x) { return x / x.norm(2, 1, true).clamp_min(1e-6); };
    return at::cat({unit(out.image_input.to(at::kFloat)), unit(out.early_text)}, 1);
  }
  void route(RouteContext& context) override {
    const auto states = looked_at(context.model, context.batch);
    const auto cosines = at::matmul(states, keys_.t()) / (states.norm(2, 1, true) * keys_.norm(2, 1).unsqueeze(0));
    context.given[context.bank.number(kTrainedSlot)] = (cosines * sharpness_).softmax(1);  // [B, 3]
  }
  void state(StateVisitor& visitor) override { visitor.tensor("keys", StateKind::statistics, keys_); }
  std::vector<StateShape> kept(const StateSizes& sizes) const override {
    return {{"keys", StateKind::statistics, {3, 2 * sizes.widest_site}}};
  }

 protected:
  void change_slots(StageContext& stage) override {
    const auto states = looked_at(stage.model, stage.data.rows(range(0, stage.data.size())));
    std::vector<torch::Tensor> means;
    for (int64_t expert = 0; expert < 3; ++expert) means.push_back(states.slice(0, expert, states.size(0), 3).mean(0));
    const auto found = at::stack(means);
    keys_ = keys_.defined() ? 0.5 * (keys_ + found) : found;
  }

 private:
  double sharpness_ = 1;
  torch::Tensor keys_;  // [3, 2 width]
};

// A slot a stage, alone in training; answers add all their factors up.
class FakeFused final : public FakeMethod {
 public:
  bool renews_adapters() const override { return true; }
  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>&, const SlotLayout& plain,
                                      int stage) const override {
    auto slot = plain;
    slot.name = "stage-" + std::to_string(stage);
    for (auto& site : slot.sites) site.answering.kind = GateKind::fused;
    return AdapterLayout{slot};
  }

 protected:
  void change_slots(StageContext& stage) override {
    if (stage.stage == 1) return;
    const auto old = "stage-" + std::to_string(stage.stage - 1);
    stage.bank.freeze(old);
    stage.bank.take_part(old, false, true);
  }
};

}  // namespace asr
