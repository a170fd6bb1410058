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

// A slot a stage, alone in training; answers add all their factors up.
class FakeFused final : public FakeMethod {
 public:
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
