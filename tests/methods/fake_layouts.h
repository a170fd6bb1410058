// A fake method for everything that a layout can ask of the bank.
#pragma once

#include "tests/methods/fake_diary.h"

namespace asr {

inline std::string fake_stage_slot(int stage) {
  return "stage-" + std::to_string(stage);
}

// A slot a stage with a rank, a scale and a start of its own; earlier ones stay, frozen.
class FakeSlots final : public FakeMethod {
 public:
  bool renews_adapters() const override { return true; }
  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>&, const SlotLayout& plain,
                                      int stage) const override {
    auto slot = plain;
    slot.name = fake_stage_slot(stage);
    for (auto& site : slot.sites) {
      site.rank = 1 + stage;
      site.scale = 2.0 / stage;
      site.spread = 0.02 * stage;
    }
    return AdapterLayout{slot};
  }

 protected:
  void change_slots(StageContext& stage) override {
    if (stage.stage > 1) stage.bank.freeze(fake_stage_slot(stage.stage - 1));
  }
};

// The same slots, but each is added to the weights when its stage is over.
class FakeMerged final : public FakeMethod {
 public:
  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>&, const SlotLayout& plain,
                                      int stage) const override {
    auto slot = plain;
    slot.name = fake_stage_slot(stage);
    return AdapterLayout{slot};
  }

 protected:
  void finish(StageContext& stage) override { stage.bank.merge(fake_stage_slot(stage.stage)); }
};

// One A for three experts; from the second stage on the first of them is frozen at the first site, and A at the last.
class FakeFrozenParts final : public FakeMethod {
 public:
  explicit FakeFrozenParts(bool share_a) : share_a_(share_a) {}
  bool needs_lasting_adapters() const override { return true; }
  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>&, const SlotLayout& plain, int) const override {
    auto slot = plain;
    for (auto& site : slot.sites) {
      site.experts = 3;
      site.share_a = share_a_;
    }
    return AdapterLayout{slot};
  }

 protected:
  void change_slots(StageContext& stage) override {
    if (stage.stage == 1) return;
    const auto& sites = stage.bank.layout(kTrainedSlot).sites;
    stage.bank.freeze(kTrainedSlot, sites.front().site, 0);
    stage.bank.freeze_tensor(kTrainedSlot, stage.bank.at(kTrainedSlot, sites.back().site).experts[0].a);
  }

 private:
  bool share_a_;
};

// A whole weight with a rate of its own beside the usual low-rank pairs.
class FakeFull final : public FakeMethod {
 public:
  static constexpr double kRate = 1e-4;
  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int) const override {
    auto slot = plain;
    SiteLayout whole;
    whole.site = sites_of(sites, {SitePart::o}).at(0).name;
    whole.full = true;
    whole.learning_rate = kRate;
    slot.sites.push_back(whole);
    return AdapterLayout{slot};
  }
};

// The linears of these parts and no others.
class FakeParts final : public FakeMethod {
 public:
  explicit FakeParts(std::vector<SitePart> parts) : parts_(std::move(parts)) {}
  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>& sites, const SlotLayout& plain,
                                      int) const override {
    auto each = plain.sites.at(0);
    each.rank = 2;
    return AdapterLayout{alike(kTrainedSlot, sites_of(sites, parts_), each)};
  }

 private:
  std::vector<SitePart> parts_;
};

// Numbers of its own, with a rate and a decay of their own, that weigh two experts.
class FakeGroup final : public FakeMethod {
 public:
  static constexpr double kRate = 0.05, kDecay = 0.5;
  void prepare(Backbone& model, const Options&) override { mix_ = mix_.to(model.device()); }
  std::optional<AdapterLayout> layout(const std::vector<AdapterSite>&, const SlotLayout& plain, int) const override {
    auto slot = plain;
    for (auto& site : slot.sites) {
      site.experts = 2;
      site.training.kind = site.answering.kind = GateKind::given;
    }
    return AdapterLayout{slot};
  }
  void route(RouteContext& context) override { context.given[context.bank.number(kTrainedSlot)] = mix_; }
  std::vector<ParameterGroup> parameters() override { return {{"mix", {{"fake.mix", mix_}}, kRate, kDecay}}; }
  void state(StateVisitor& visitor) override { visitor.tensor("mix", StateKind::adapter, mix_); }
  std::vector<StateShape> kept(const StateSizes&) const override { return {{"mix", StateKind::adapter, {2}}}; }

 private:
  torch::Tensor mix_ = torch::ones({2});
};

}  // namespace asr
