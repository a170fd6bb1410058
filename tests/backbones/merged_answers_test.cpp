// A model whose adapters are added to copies of its weights: the logits and tokens of experts that stay products of
// their own, in every family and at every usual site, and on a GPU where there is one.
#include "nn/merged_weights.h"

#include "tensor/runtime.h"
#include "tests/backbones/reference_checks.h"

namespace asr {
namespace {

class MergedModel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, MergedModel, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

// Weights and experts in `type`, so that a sum of both is rounded in it.
std::unique_ptr<PretrainedBackbone> adapted_model(const Golden& golden, at::ScalarType type, at::Device device) {
  auto model = open_model(golden.folder, type);
  for (const auto& site : model->all_sites()) site.linear->weight = site.linear->weight.to(type);
  torch::manual_seed(21);
  for (auto& [name, tensor] : add_experts(model->sites(), 4, 8, 5)) {
    auto values = tensor.detach();
    if (name.find("lora_B") != std::string::npos) values.normal_(0, 0.05);
  }
  for (const auto& site : model->sites())
    for (auto& slot : site.linear->slots)
      for (auto& expert : slot.experts) {
        expert.a = expert.a.detach().to(device);
        expert.b = expert.b.detach().to(device);
      }
  model->to(device);
  return model;
}

void expect_the_same(const Golden& golden, at::ScalarType type, at::Device device, double part) {
  at::NoGradGuard no_grad;
  const auto model = adapted_model(golden, type, device);
  const auto batch = batch_of(golden, device);
  const auto prompt = batch.mask.logical_and(batch.labels.lt(0));
  Pass pass;
  pass.answering = true;
  const auto merged = merged_weights(model->all_sites(), pass);
  EXPECT_EQ(merged.size(), model->sites().size());
  auto with = pass;
  with.merged = &merged;
  const auto logits = [&](const Pass& how) {
    return model->language().logits(model->inspect(batch, how, {}, batch.mask).hidden).index({batch.mask});
  };
  const auto own = logits(pass), base = logits(Pass{0});
  const double scale = 1 + own.abs().max().item<double>();
  EXPECT_LE(apart(logits(with), own), part * scale);
  EXPECT_GT(apart(own, base), 100 * part * scale) << "the experts count for something";
  EXPECT_TRUE(logits(Pass{0}).equal(base)) << "adapters off is the base as it was";
  EXPECT_EQ(model->continue_greedily(batch, prompt, with, 6, true),
            model->continue_greedily(batch, prompt, pass, 6, true));
}

TEST_P(MergedModel, AnswersAsExpertsDo) {
  auto golden = open_reference(GetParam());
  if (IsSkipped()) return;
  expect_the_same(golden, at::kDouble, at::kCPU, 1e-11);
  if (runtime_info().cuda) expect_the_same(golden, at::kFloat, at::kCUDA, 2e-4);
}

}  // namespace
}  // namespace asr
