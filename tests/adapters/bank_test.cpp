// The bank: slots by name, freezing per expert and site, merging that is undone, and a description that brings all of
// it back.
#include "adapters/bank.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace asr {
namespace {

struct Model {
  std::vector<Linear> linears = std::vector<Linear>(3);
  std::vector<AdapterSite> sites;
  Model() {
    torch::manual_seed(1);
    const char* names[] = {"layers.0.q", "layers.0.v", "projector"};
    const SitePart parts[] = {SitePart::q, SitePart::v, SitePart::projector};
    for (size_t i = 0; i < 3; ++i) {
      linears[i].weight = torch::randn({6, 8});
      sites.push_back({names[i], &linears[i], parts[i], i < 2 ? 0 : -1});
    }
  }
};

SiteLayout ranked(int64_t rank, int64_t experts = 1) {
  SiteLayout out;
  out.rank = rank;
  out.experts = experts;
  return out;
}

TEST(AdapterBank, NamesItsTensorsAsPeftDoes) {
  Model model;
  AdapterBank bank(model.sites);
  bank.add(alike(kTrainedSlot, sites_of(model.sites, {SitePart::q, SitePart::v}), ranked(2)), 1);
  bank.add(alike("stage-2", {model.sites[2]}, ranked(2, 2)), 1);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : bank.tensors()) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"layers.0.q.lora_A.weight", "layers.0.q.lora_B.weight",
                                      "layers.0.v.lora_A.weight", "layers.0.v.lora_B.weight",
                                      "stage-2:projector.lora_A.0.weight", "stage-2:projector.lora_B.0.weight",
                                      "stage-2:projector.lora_A.1.weight", "stage-2:projector.lora_B.1.weight"}));
}

// The draw is the one that plain runs have always had.
TEST(AdapterBank, DrawsAsAddExpertsDoes) {
  Model one, other;
  AdapterBank bank(one.sites);
  bank.add(alike(kTrainedSlot, one.sites, ranked(2)), 9);
  const auto plain = add_experts(other.sites, 2, 4, 9);
  const auto mine = bank.tensors();
  ASSERT_EQ(mine.size(), plain.size());
  for (size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(mine[i].second.equal(plain[i].second)) << mine[i].first;
}

TEST(AdapterBank, LeavesSitesOutOfASlot) {
  Model model, other;
  AdapterBank bank(model.sites), again(other.sites);
  bank.add(alike("some", model.sites, ranked(2)), 1);
  const auto kept = model.linears[1].slots[0].experts[0].a.clone();
  bank.keep_sites("some", {"layers.0.v"});
  EXPECT_TRUE(model.linears[0].slots[0].empty());
  EXPECT_TRUE(model.linears[1].slots[0].experts[0].a.equal(kept));
  EXPECT_TRUE(model.linears[2].slots[0].empty());
  EXPECT_EQ(bank.tensors().size(), 2u);
  again.rebuild(bank.describe(), "test");
  EXPECT_EQ(again.describe(), bank.describe());
}

TEST(AdapterBank, GetsTheRoutersThatALayoutHasMore) {
  Model model, other;
  AdapterBank bank(model.sites), again(other.sites);
  auto each = ranked(2, 3);
  each.training.kind = each.answering.kind = GateKind::router;
  bank.ensure(alike("routed", {model.sites[0]}, each), 1);
  const auto first = model.linears[0].slots[0].training.router.clone();
  each.routers = 2;
  bank.ensure(alike("routed", {model.sites[0]}, each), 1);
  bank.ensure(alike("routed", {model.sites[0]}, each), 1);  // nothing is lacking
  const auto& slot = model.linears[0].slots[0];
  ASSERT_EQ(slot.answering.earlier_routers.size(), 1u);
  EXPECT_TRUE(slot.answering.earlier_routers[0].equal(first));
  EXPECT_TRUE(slot.training.earlier_routers.empty());
  EXPECT_TRUE(slot.training.router.is_same(slot.answering.router));
  EXPECT_FALSE(slot.training.router.equal(first));
  std::vector<std::string> trained;
  for (const auto& [name, tensor] : bank.trained()) trained.push_back(name);
  EXPECT_EQ(std::count(trained.begin(), trained.end(), "routed:layers.0.q.router.weight"), 0);
  EXPECT_EQ(std::count(trained.begin(), trained.end(), "routed:layers.0.q.router.1.weight"), 1);
  again.rebuild(bank.describe(), "test");
  EXPECT_EQ(again.describe(), bank.describe());
  EXPECT_EQ(again.tensors().size(), bank.tensors().size());
  each.training.kind = each.answering.kind = GateKind::sum;
  each.routers = 1;
  bank.ensure(alike("summed", {model.sites[1]}, each), 1);
  each.routers = 2;
  EXPECT_THROW(bank.ensure(alike("summed", {model.sites[1]}, each), 1), Error);
}

TEST(AdapterBank, FreezesPerExpertAndSite) {
  Model model;
  AdapterBank bank(model.sites);
  auto shared = ranked(2, 2);
  shared.share_a = true;
  bank.add(alike("branches", {model.sites[0]}, shared), 1);
  bank.add(alike("own", {model.sites[1]}, ranked(2, 2)), 1);
  bank.freeze("branches", "layers.0.q", 1);
  bank.freeze("own", "layers.0.v", 0);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : bank.trained()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"branches:layers.0.q.lora_A.weight", "branches:layers.0.q.lora_B.0.weight",
                                             "own:layers.0.v.lora_A.1.weight", "own:layers.0.v.lora_B.1.weight"}));
  EXPECT_FALSE(bank.is_frozen("own"));
  bank.freeze("own");
  EXPECT_TRUE(bank.is_frozen("own"));
  EXPECT_CONTAINS(error_of([&] { bank.freeze("own", "layers.0.v", 2); }), "no number 2");
}

// A phase that trains something else takes the gradients away for its time; nothing is frozen by that.
TEST(AdapterBank, WithoutGradientsIsNotFrozen) {
  Model model;
  AdapterBank bank(model.sites);
  bank.add(alike(kTrainedSlot, model.sites, ranked(2, 1)), 1);
  const auto before = bank.trained().size();
  for (auto& [name, tensor] : bank.trained()) torch::Tensor(tensor).requires_grad_(false);
  EXPECT_EQ(bank.trained().size(), before);
  EXPECT_FALSE(bank.is_frozen(kTrainedSlot));
}

TEST(AdapterBank, MergingChangesNoPassAndIsUndone) {
  Model model;
  const auto x = torch::randn({3, 8});
  const auto base = model.linears[0](x, Pass{0, nullptr});
  {
    AdapterBank bank(model.sites);
    bank.add(alike("stage-1", model.sites, ranked(2)), 1);
    {
      at::NoGradGuard no_grad;
      for (const auto& [name, tensor] : bank.tensors()) tensor.normal_();
    }
    Pass pass;
    pass.slots = bank.answering();
    const auto adapted = model.linears[0](x, pass);
    EXPECT_FALSE(at::allclose(adapted, base, 1e-3, 1e-3));
    const auto weight = model.linears[0].weight.clone();
    bank.merge("stage-1");
    pass.slots = bank.answering();
    EXPECT_TRUE(at::allclose(model.linears[0](x, pass), adapted, 1e-4, 1e-4));
    EXPECT_TRUE(model.linears[0](x, Pass{0, nullptr}).equal(base));
    EXPECT_TRUE(model.linears[0].weight.equal(weight));
    EXPECT_TRUE(bank.is_frozen("stage-1"));
    EXPECT_EQ(bank.tensors().size(), 6u);
    bank.add(alike("stage-2", model.sites, ranked(2)), 2);
    pass.slots = bank.training();
    EXPECT_TRUE(at::allclose(model.linears[0](x, pass), adapted, 1e-4, 1e-4));
  }
  EXPECT_TRUE(model.linears[0].slots.empty());
  EXPECT_TRUE(model.linears[0](x, {}).equal(base));
}

TEST(AdapterBank, ComesBackFromItsDescription) {
  Model model, again;
  AdapterBank bank(model.sites), copy(again.sites);
  for (size_t i = 0; i < 3; ++i) again.linears[i].weight.copy_(model.linears[i].weight);
  bank.add(alike("stage-1", model.sites, ranked(2)), 1);
  auto routed = ranked(3, 2);
  routed.training.kind = routed.answering.kind = GateKind::router;
  bank.add(alike("stage-2", {model.sites[1]}, routed), 2);
  SiteLayout full;
  full.full = true;
  bank.add(alike("whole", {model.sites[2]}, full), 3);
  {
    at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : bank.tensors()) tensor.normal_();
  }
  bank.merge("stage-1");
  bank.freeze("stage-2", "layers.0.v", 1);
  bank.take_part("whole", true, false);
  copy.rebuild(nlohmann::json::parse(bank.describe().dump()), "test");
  {
    at::NoGradGuard no_grad;
    const auto from = bank.tensors(), to = copy.tensors();
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(from[i].first, to[i].first);
      to[i].second.copy_(from[i].second);
    }
  }
  copy.finish_rebuild();
  EXPECT_EQ(copy.describe(), bank.describe());
  EXPECT_EQ(copy.training(), bank.training());
  EXPECT_EQ(copy.answering(), bank.answering());
  EXPECT_EQ(copy.trained().size(), bank.trained().size());
  const auto x = torch::randn({2, 4, 8});
  for (size_t i = 0; i < 3; ++i)
    for (const uint64_t slots : {bank.training(), bank.answering(), uint64_t(0)})
      EXPECT_TRUE(model.linears[i](x, Pass{slots, nullptr}).equal(again.linears[i](x, Pass{slots, nullptr}))) << i;
  EXPECT_CONTAINS(error_of([&] { copy.rebuild(nlohmann::json::parse("{}"), "x.json"); }), "x.json: the list");
  EXPECT_CONTAINS(error_of([&] { copy.rebuild(nlohmann::json::parse("[{\"name\": 3}]"), "x.json"); }), "x.json");
}

TEST(AdapterBank, SumsArePlainAdaptersAndGatesAreNot) {
  Model model;
  AdapterBank bank(model.sites);
  bank.add(alike("stage-1", model.sites, ranked(2)), 1);
  auto wider = ranked(3);
  wider.scale = 0.5;
  bank.add(alike("stage-2", {model.sites[0]}, wider), 2);
  {
    at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : bank.tensors()) tensor.normal_();
  }
  const auto plain = as_plain_adapter(bank);
  EXPECT_EQ(plain.ranks.at("layers.0.q"), 5);
  const auto x = torch::randn({3, 8});
  const auto delta =
      at::linear(at::linear(x, plain.tensors[0].second), plain.tensors[1].second) * plain.scales.at("layers.0.q");
  EXPECT_TRUE(at::allclose(model.linears[0](x, Pass{bank.answering(), nullptr}),
                           at::linear(x, model.linears[0].weight) + delta, 1e-4, 1e-4));
  auto routed = ranked(2, 2);
  routed.training.kind = routed.answering.kind = GateKind::router;
  bank.add(alike("routed", {model.sites[1]}, routed), 3);
  EXPECT_CONTAINS(why_not_plain(bank), "'routed' has a gate at 'layers.0.v'");
  EXPECT_CONTAINS(error_of([&] { as_plain_adapter(bank); }), "no plain LoRA");
  EXPECT_CONTAINS(error_of([&] { bank.merge("routed"); }), "has a gate");
}

TEST(AdapterBank, ATeacherIsACopyOutOfEveryPass) {
  Model model;
  AdapterBank bank(model.sites);
  bank.add(alike(kTrainedSlot, model.sites, ranked(2)), 1);
  const auto slots = bank.training();
  bank.copy(kTrainedSlot, "lwf.teacher");
  EXPECT_EQ(bank.training(), slots);
  EXPECT_TRUE(bank.is_frozen("lwf.teacher"));
  EXPECT_FALSE(bank.is_frozen(kTrainedSlot));
  at::NoGradGuard no_grad;
  bank.at(kTrainedSlot, "projector").experts[0].b.fill_(1);
  EXPECT_FALSE(bank.at("lwf.teacher", "projector").experts[0].b.equal(bank.at(kTrainedSlot, "projector").experts[0].b));
  bank.copy(kTrainedSlot, "lwf.teacher");
  EXPECT_TRUE(bank.at("lwf.teacher", "projector").experts[0].b.equal(bank.at(kTrainedSlot, "projector").experts[0].b));
}

TEST(AdapterBank, RefusesWhatCannotBe) {
  Model model;
  AdapterBank bank(model.sites);
  const auto layout = alike("a", model.sites, ranked(2));
  bank.add(layout, 1);
  EXPECT_CONTAINS(error_of([&] { bank.add(layout, 1); }), "two adapter slots 'a'");
  EXPECT_CONTAINS(error_of([&] { bank.add(alike("b", {}, ranked(2)), 1); }), "no sites");
  EXPECT_CONTAINS(error_of([&] { bank.add(alike("c:d", model.sites, ranked(2)), 1); }), "cannot be the name");
  EXPECT_CONTAINS(error_of([&] { bank.number("z"); }), "no adapter slot 'z'");
  EXPECT_CONTAINS(error_of([&] { AdapterBank second(model.sites); }), "already carries");
}

}  // namespace
}  // namespace asr
