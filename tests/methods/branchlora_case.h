// BranchLoRA without a trainer: stages of the world, what its linears read, and what routers and branches make of that
// by hand.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/methods/method_case.h"

namespace asr {

inline constexpr const char* kBranchSlot = "branches";

struct BranchCase : OwnModelCase {
  explicit BranchCase(const MethodOptions& options) : OwnModelCase("branchlora", options) {}

  // From the layout to the end of the stage, without steps.
  void pass_stage(int stage, const SampleSet& set) {
    begin(stage, set);
    fixture->randomise(0.3);
    auto context = fixture->stage_context(stage, set);
    fixture->method->after_stage(context);
  }
};

// The weights of one token by the definition: softmax, and of it the `top` largest as they are.
inline std::vector<double> top_weights(const torch::Tensor& router, const torch::Tensor& token, size_t top) {
  const auto scores = router.to(at::kDouble).mv(token.to(at::kDouble));
  std::vector<double> all;
  double sum = 0;
  for (int64_t e = 0; e < scores.size(0); ++e) all.push_back(std::exp(scores[e].item<double>()));
  for (const double value : all) sum += value;
  auto sorted = all;
  std::sort(sorted.rbegin(), sorted.rend());
  for (double& value : all) value = value >= sorted[top - 1] ? value / sum : 0;
  return all;
}

inline torch::Tensor branch_output(const AdapterSite& site, const SlotAtSite& slot, const torch::Tensor& token,
                                   const std::vector<double>& weights) {
  auto y = site.linear->weight.to(at::kDouble).mv(token.to(at::kDouble));
  if (site.linear->bias.defined()) y = y + site.linear->bias;
  const auto low = slot.experts[0].a.to(at::kDouble).mv(token.to(at::kDouble));
  for (size_t e = 0; e < weights.size(); ++e) y = y + slot.experts[e].b.to(at::kDouble).mv(low) * (2 * weights[e]);
  return y;
}

// Every vector that a linear read, pass by pass.
class ReadVectors final : public InputObserver {
 public:
  void see(const Linear& linear, const torch::Tensor& x) override { read[&linear].push_back(x.detach()); }
  std::map<const Linear*, std::vector<torch::Tensor>> read;
};

// Of samples that go through one by one, so that nothing is padded.
inline ReadVectors vectors_read(BranchCase& test, const SampleSet& set) {
  at::NoGradGuard no_grad;
  ReadVectors out;
  Pass pass;
  pass.slots = test->bank->training();
  pass.observer = &out;
  Want want;
  want.loss = false;
  want.pooled = true;
  for (int64_t i = 0; i < set.size(); ++i) test->model->forward(set.rows({i}).input, pass, want);
  return out;
}

// What a linear's router gives each branch over these samples, [1, T, in] each, where two take part.
inline std::vector<double> router_sums(const AdapterSite& site, const torch::Tensor& router, const std::string& reads,
                                       const std::vector<torch::Tensor>& samples) {
  std::vector<double> sums(static_cast<size_t>(router.size(0)), 0.0);
  for (const auto& x : samples) {
    EXPECT_EQ(x.size(0), 1);
    std::vector<torch::Tensor> states = {x[0][0]};
    if (reads == "mean") states = {x[0].mean(0)};
    if (reads == "token" || site.part == SitePart::projector) {
      states.clear();
      for (int64_t t = 0; t < x.size(1); ++t) states.push_back(x[0][t]);
    }
    for (const auto& state : states) {
      const auto weights = top_weights(router, state, 2);
      for (size_t e = 0; e < sums.size(); ++e) sums[e] += weights[e];
    }
  }
  return sums;
}

// Branches of a linear, of four, that learn no more.
inline std::set<size_t> frozen_branches(const AdapterBank& bank, const std::string& site) {
  std::set<std::string> trained;
  for (const auto& [name, tensor] : bank.trained()) trained.insert(name);
  EXPECT_TRUE(trained.count(cat(kBranchSlot, ":", site, ".lora_A.weight"))) << site;
  std::set<size_t> out;
  for (size_t e = 0; e < 4; ++e)
    if (trained.count(cat(kBranchSlot, ":", site, ".lora_B.", e, ".weight")) == 0) out.insert(e);
  return out;
}

}  // namespace asr
