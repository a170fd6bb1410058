// Experts added to copies of the weights: the same numbers as experts that stay products of their own, to rounding, and
// a model that is left as it was.
#include "nn/merged_weights.h"

#include <gtest/gtest.h>

#include "tests/support/rounding.h"

namespace asr {
namespace {

constexpr int64_t kIn = 24, kOut = 16, kRank = 3;

SlotAtSite slot_of(int64_t experts, GateKind kind) {
  SlotAtSite out;
  for (int64_t e = 0; e < experts; ++e)
    out.experts.push_back({torch::randn({kRank, kIn}) / 5, torch::randn({kOut, kRank}), 0.5});
  out.answering.kind = kind;
  out.training.kind = GateKind::sum;
  if (kind == GateKind::router) out.answering.router = torch::randn({experts, kIn});
  return out;
}

struct Case {
  const char* what;
  std::vector<SlotAtSite> slots;
  GivenWeights given;
  bool merged = true;
};

std::vector<Case> cases() {
  const auto sum = GateKind::sum, given = GateKind::given, fused = GateKind::fused, router = GateKind::router;
  return {{"one expert", {slot_of(1, sum)}, {}},
          {"two slots", {slot_of(1, sum), slot_of(2, sum)}, {}},
          {"given for all rows", {slot_of(2, given)}, {{0, torch::tensor({0.25f, 1.5f})}}},
          {"given for all rows, as a row", {slot_of(1, given)}, {{0, torch::tensor({{0.5f}})}}},
          {"fused", {slot_of(1, fused), slot_of(1, fused)}, {}},
          {"given beside a sum", {slot_of(1, given), slot_of(1, sum)}, {{0, torch::tensor({2.0f})}}},
          {"given a row", {slot_of(1, given)}, {{0, torch::rand({4, 1})}}, false},
          {"router", {slot_of(2, router)}, {}, false}};
}

class Merged : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, Merged, ::testing::Values(at::kFloat, at::kDouble));

TEST_P(Merged, AgreesWithExpertsOfTheirOwn) {
  at::NoGradGuard no_grad;
  torch::manual_seed(5);
  for (auto& c : cases()) {
    Linear linear;
    linear.weight = torch::randn({kOut, kIn}).to(GetParam()) / 5;
    for (auto& slot : c.slots)
      for (auto& expert : slot.experts) {
        expert.a = expert.a.to(GetParam());
        expert.b = expert.b.to(GetParam());
      }
    for (auto& slot : c.slots)
      if (slot.answering.router.defined()) slot.answering.router = slot.answering.router.to(GetParam());
    linear.slots = c.slots;
    const auto x = torch::randn({4, 6, kIn}).to(GetParam());
    Pass pass;
    pass.slots = 3;
    pass.answering = true;
    pass.given = &c.given;
    const auto before = linear.weight.clone();
    const auto base = linear(x, Pass{0});
    const auto own = linear(x, pass);
    const auto merged = merged_weights({{"site", &linear}}, pass);
    EXPECT_EQ(merged.size(), c.merged ? 1u : 0u) << c.what;
    EXPECT_EQ(weighs_rows_alike(linear, pass), c.merged) << c.what;
    auto with = pass;
    with.merged = &merged;
    const auto y = linear(x, with);
    const double scale = own.abs().max().item<double>() + x.abs().max().item<double>();
    const double bound = rounding_bound(2 * (kIn + 4 * kRank), GetParam()) * scale * 4;
    EXPECT_LE((y - own).abs().max().item<double>(), bound) << c.what;
    EXPECT_GT((own - base).abs().max().item<double>(), 1000 * bound) << c.what << ": the experts count for something";
    EXPECT_TRUE(linear.weight.equal(before) && !linear.merged.defined()) << c.what;
    EXPECT_TRUE(linear(x, Pass{0}).equal(base)) << c.what;
    EXPECT_TRUE(linear(x, pass).equal(own)) << c.what;
  }
}

TEST(MergedWeights, ABaseInFewBitsIsRoundedOnce) {
  at::NoGradGuard no_grad;
  torch::manual_seed(6);
  Linear linear;
  linear.weight = torch::randn({kOut, kIn}).to(at::kBFloat16);
  linear.slots = {slot_of(1, GateKind::sum)};
  Pass pass;
  pass.answering = true;
  const auto merged = merged_weights({{"site", &linear}}, pass).at(&linear);
  const auto& expert = linear.slots[0].experts[0];
  const auto exact = linear.weight.to(at::kFloat) + expert.b.mm(expert.a) * expert.scale;
  EXPECT_TRUE(merged.equal(exact.to(at::kBFloat16)));
}

TEST(MergedWeights, WholeWeightsAndEarlierMergesCount) {
  at::NoGradGuard no_grad;
  torch::manual_seed(7);
  Linear linear;
  linear.weight = torch::randn({kOut, kIn});
  linear.merged = linear.weight + 1;
  linear.slots = {slot_of(1, GateKind::sum)};
  Pass pass;
  pass.answering = true;
  const auto& expert = linear.slots[0].experts[0];
  const auto product = expert.b.mm(expert.a) * expert.scale;
  EXPECT_TRUE(at::allclose(merged_weights({{"site", &linear}}, pass).at(&linear), linear.merged + product));
  pass.slots = 0;
  EXPECT_TRUE(merged_weights({{"site", &linear}}, pass).empty());
}

}  // namespace
}  // namespace asr
