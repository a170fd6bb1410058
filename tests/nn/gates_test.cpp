// Gates: every kind against the same sum taken expert by expert, with gradients; routers that read the sequence keep
// their choice while an answer is generated.
#include "nn/gates.h"

#include <gtest/gtest.h>

#include "tensor/torch_compat.h"
#include "tests/support/files.h"

namespace asr {
namespace {

constexpr int64_t kIn = 12, kOut = 10, kExperts = 3, kRank = 2;

Linear gated_linear(const Gate& gate, int slots = 1) {
  Linear out;
  out.weight = torch::randn({kOut, kIn});
  for (int k = 0; k < slots; ++k) {
    SlotAtSite slot;
    for (int64_t e = 0; e < kExperts; ++e)
      slot.experts.push_back({torch::randn({kRank, kIn}).requires_grad_(), torch::randn({kOut, kRank}).requires_grad_(),
                              0.5 + 0.25 * static_cast<double>(e)});
    slot.training = slot.answering = gate;
    out.slots.push_back(std::move(slot));
  }
  return out;
}

std::vector<torch::Tensor> leaves(const Linear& linear, const torch::Tensor& x) {
  std::vector<torch::Tensor> out = {x};
  for (const auto& slot : linear.slots) {
    for (const auto& expert : slot.experts) {
      out.push_back(expert.a);
      out.push_back(expert.b);
    }
    if (slot.training.router.defined()) out.push_back(slot.training.router);
  }
  return out;
}

// Outputs and all gradients agree with the plain sum.
void expect_plain_sum(const Linear& linear, const torch::Tensor& x, const Pass& pass, const std::string& what) {
  const auto fast = linear(x, pass);
  const auto plain = at::linear(x, linear.weight) + experts_reference(linear, x, pass);
  EXPECT_TRUE(at::allclose(fast, plain, 1e-4, 1e-4)) << what;
  const auto pull = torch::randn_like(plain);
  const auto inputs = leaves(linear, x);
  const auto got = gradients((fast * pull).sum(), inputs), expected = gradients((plain * pull).sum(), inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << what << ", tensor " << i;
    if (!got[i].defined()) continue;
    EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-3, 1e-3)) << what << ", gradient " << i;
  }
}

Gate router(RouterReads reads, int64_t top_k = 0, double share = 1) {
  Gate out;
  out.kind = GateKind::router;
  out.router = torch::randn({kExperts, kIn}).requires_grad_();
  out.reads = reads;
  out.top_k = top_k;
  out.router_share = share;
  return out;
}

TEST(Gates, AgreeWithTheSumOverExperts) {
  torch::manual_seed(3);
  const auto x = torch::randn({4, 5, kIn}).requires_grad_();
  const GivenWeights given = {{0, torch::rand({4, kExperts})}}, alike = {{0, torch::rand({kExperts})}};
  Gate by_given;
  by_given.kind = GateKind::given;
  Pass pass;
  expect_plain_sum(gated_linear({}), x, pass, "sum");
  for (const auto reads : {RouterReads::token, RouterReads::first, RouterReads::mean}) {
    expect_plain_sum(gated_linear(router(reads)), x, pass, "router");
    expect_plain_sum(gated_linear(router(reads, 2)), x, pass, "the two largest of a router");
  }
  pass.given = &given;
  expect_plain_sum(gated_linear(by_given), x, pass, "given per sample");
  expect_plain_sum(gated_linear(router(RouterReads::token, 0, 0.5)), x, pass, "a mixture");
  pass.given = &alike;
  expect_plain_sum(gated_linear(by_given), x, pass, "given for all");
}

TEST(Gates, SlotsOfSeveralKindsAreOneProduct) {
  torch::manual_seed(4);
  const auto x = torch::randn({2, 3, kIn}).requires_grad_();
  auto linear = gated_linear({}, 3);
  linear.slots[1].training = router(RouterReads::token);
  linear.slots[2].training.kind = GateKind::given;
  const GivenWeights given = {{2, torch::rand({2, kExperts})}};
  Pass pass;
  pass.slots = 7;
  pass.given = &given;
  EXPECT_EQ(active_experts(linear, x, pass).size(), 1u);
  expect_plain_sum(linear, x, pass, "three slots");
  pass.slots = 5;
  expect_plain_sum(linear, x, pass, "two of three slots");
  pass.slots = 0;
  EXPECT_TRUE(linear(x, pass).equal(linear(x, Pass{0, nullptr})));
}

TEST(Gates, FusedExpertsHaveCrossTerms) {
  torch::manual_seed(5);
  const auto x = torch::randn({2, 3, kIn}).requires_grad_();
  Gate fused;
  fused.kind = GateKind::fused;
  auto linear = gated_linear(fused, 2);
  for (auto& slot : linear.slots)
    for (auto& expert : slot.experts) expert.scale = 0.5;
  Pass pass;
  pass.slots = 3;
  expect_plain_sum(linear, x, pass, "fused");
  torch::Tensor a = torch::zeros({kRank, kIn}), b = torch::zeros({kOut, kRank});
  for (const auto& slot : linear.slots)
    for (const auto& expert : slot.experts) {
      a = a + expert.a;
      b = b + expert.b;
    }
  const auto expected = at::linear(x, linear.weight) + at::linear(at::linear(x, a), b) * 0.5;
  EXPECT_TRUE(at::allclose(linear(x, pass), expected, 1e-4, 1e-4));
  linear.slots[1].experts[0].scale = 2;
  EXPECT_CONTAINS(error_of([&] { linear(x, pass); }), "unequal rank or scale");
}

TEST(Gates, WeightsPerColumnAndPerRow) {
  torch::manual_seed(6);
  Gate by_given;
  by_given.kind = GateKind::given;
  auto linear = gated_linear(by_given);
  const auto columns = torch::rand({2, kExperts * kRank});
  const GivenWeights given = {{0, columns}};
  Pass pass;
  pass.given = &given;
  pass.row_samples = torch::tensor({0, 0, 1, 1, 1}, at::kLong);
  const auto x = torch::randn({5, kIn});
  auto expected = at::linear(x, linear.weight);
  for (int64_t e = 0; e < kExperts; ++e) {
    const auto& expert = linear.slots[0].experts[static_cast<size_t>(e)];
    const auto g = columns.narrow(1, e * kRank, kRank).index_select(0, pass.row_samples);
    expected = expected + at::linear(at::linear(x, expert.a) * g, expert.b) * expert.scale;
  }
  EXPECT_TRUE(at::allclose(linear(x, pass), expected, 1e-4, 1e-4));
  pass.row_samples = torch::Tensor();
  EXPECT_CONTAINS(error_of([&] { linear(x, pass); }), "weights per sample cannot be used");
  pass.given = nullptr;
  EXPECT_CONTAINS(error_of([&] { linear(x, pass); }), "none were");
}

// Where the rows of x are tiles, two of the first sample and three of the second, a router that reads the sequence
// reads every tile, and what it finds is that tile's own; weights that are given are the samples'.
TEST(Gates, ATileIsWeighedByWhatItReadsItself) {
  torch::manual_seed(4);
  const auto x = torch::randn({5, 4, kIn});
  for (const auto reads : {RouterReads::first, RouterReads::mean})
    for (const double share : {1.0, 0.25}) {
      const auto linear = gated_linear(router(reads, 0, share));
      const GivenWeights given = {{0, torch::tensor({{1.0, 0.0, 0.0}, {0.0, 0.5, 2.0}})}};
      Pass pass;
      pass.row_samples = torch::tensor({0, 0, 1, 1, 1}, at::kLong);
      pass.given = &given;
      const auto found = linear(x, pass);
      for (int64_t row = 0; row < 5; ++row) {
        const auto state = reads == RouterReads::first ? x[row][0] : x[row].mean(0);
        const auto routed = at::mv(linear.slots[0].training.router.detach(), state).softmax(0);
        const auto weights = routed * share + given.at(0)[row < 2 ? 0 : 1] * (1 - share);
        auto expected = at::linear(x[row], linear.weight);
        for (int64_t e = 0; e < kExperts; ++e) {
          const auto& expert = linear.slots[0].experts[static_cast<size_t>(e)];
          expected = expected + at::linear(at::linear(x[row], expert.a), expert.b) * weights[e] * expert.scale;
        }
        EXPECT_TRUE(at::allclose(found[row], expected, 1e-4, 1e-4)) << row << ", share " << share;
      }
    }
}

TEST(Gates, TrainingAndAnsweringMayDiffer) {
  torch::manual_seed(7);
  auto linear = gated_linear({});
  linear.slots[0].answering = router(RouterReads::token);
  const auto x = torch::randn({2, 3, kIn}).requires_grad_();
  Pass pass;
  expect_plain_sum(linear, x, pass, "training");
  const auto training = linear(x, pass);
  pass.answering = true;
  EXPECT_FALSE(at::allclose(training, linear(x, pass), 1e-3, 1e-3));
}

TEST(Gates, WhatReadsTheSequenceIsLatched) {
  torch::manual_seed(8);
  for (const auto reads : {RouterReads::first, RouterReads::mean}) {
    const auto linear = gated_linear(router(reads));
    at::NoGradGuard no_grad;
    const auto prompt = torch::randn({3, 4, kIn}), token = torch::randn({3, 1, kIn});
    GateLatch latch;
    Pass pass;
    pass.latch = &latch;
    pass.sequence_mask =
        torch::tensor({{false, true, true, true}, {true, true, true, true}, {false, false, true, true}});
    linear(prompt, pass);
    ASSERT_EQ(latch.weights.size(), 1u);
    const auto latched = latch.weights.begin()->second;
    // The first real token, or the mean of the real ones; padding on the left counts for nothing.
    const auto state = reads == RouterReads::first ? prompt[2][2] : prompt[2].narrow(0, 2, 2).mean(0);
    EXPECT_TRUE(at::allclose(latched[2], at::linear(state, linear.slots[0].training.router).softmax(-1), 1e-4, 1e-5));
    pass.sequence_mask = torch::ones({3, 1}, at::kBool);
    const auto next = linear(token, pass);
    EXPECT_TRUE(latch.weights.begin()->second.equal(latched));
    // A row that leaves takes its weights along.
    latch.keep_rows(torch::tensor({0, 2}, at::kLong));
    pass.sequence_mask = torch::ones({2, 1}, at::kBool);
    const auto fewer = linear(at::stack({token[0], token[2]}), pass);
    EXPECT_TRUE(at::allclose(fewer[1], next[2], 1e-4, 1e-5));
  }
}

TEST(Gates, AFullWeightStandsForTheBase) {
  torch::manual_seed(9);
  Linear linear;
  linear.weight = torch::randn({kOut, kIn});
  SlotAtSite slot;
  slot.full_weight = torch::randn({kOut, kIn}).requires_grad_();
  linear.slots.push_back(slot);
  const auto x = torch::randn({2, kIn});
  EXPECT_TRUE(at::allclose(linear(x, {}), at::linear(x, slot.full_weight), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(linear(x, Pass{0, nullptr}), at::linear(x, linear.weight), 1e-5, 1e-5));
  EXPECT_TRUE(gradients(linear(x, {}).sum(), {slot.full_weight})[0].defined());
}

}  // namespace
}  // namespace asr
