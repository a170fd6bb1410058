// Frozen weights in fewer bits: every linear of the language model computes with what its format holds, adapters on it
// learn as ever, and merging reads the same numbers.
#include "backbones/base_precision.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

std::unique_ptr<Backbone> small_model() {
  return load_backbone(ASR_SOURCE_DIR "/assets/tiny-S.safetensors");
}

TEST(BasePrecision, LinearsInFourBitsComputeWithTheirSixteenValues) {
  const auto model = small_model(), plain = small_model();
  torch::manual_seed(3);
  const int64_t taken = keep_weights_in(*model, WeightFormat::nf4);
  const auto sites = model->all_sites(), before = plain->all_sites();
  int64_t found = 0;
  for (size_t i = 0; i < sites.size(); ++i) {
    const auto& linear = *sites[i].linear;
    if (!linear.few_bits.defined()) continue;
    ++found;
    const auto numbers = values_of(packed_nf4(before[i].linear->weight), at::kFloat);
    EXPECT_TRUE(base_weight(linear).equal(numbers)) << sites[i].name;
    EXPECT_EQ(linear.weight.sizes(), numbers.sizes());
    EXPECT_TRUE(linear.weight.isnan().all().item<bool>()) << "whoever reads it must notice";
    const auto x = torch::randn({2, 3, numbers.size(1)});
    expect_close(linear(x, Pass{0}), at::linear(x, numbers, linear.bias), 1e-5, sites[i].name);
  }
  EXPECT_EQ(found, taken);
  EXPECT_EQ(taken, 7 * model->layers());
}

TEST(BasePrecision, AdaptersLearnAndMergeOnFourBits) {
  const auto model = small_model();
  keep_weights_in(*model, WeightFormat::nf4);
  add_experts(model->sites(), 4, 8, 1);
  for (const auto& site : model->sites()) {
    if (!site.linear->few_bits.defined()) continue;
    const auto& linear = *site.linear;
    const auto& expert = linear.slots[0].experts[0];
    const auto x = torch::randn({5, linear.weight.size(1)}).requires_grad_();
    const auto grads = gradients(linear(x, Pass{}).square().sum(), {x, expert.b});
    EXPECT_TRUE(grads[0].isfinite().all().item<bool>());
    EXPECT_GT(grads[1].abs().max().item<double>(), 0);
    EXPECT_TRUE(merged_weight(linear, 1).equal(base_weight(linear))) << "B begins at zero";
    return;
  }
  FAIL() << "no adapted linear in four bits";
}

TEST(BasePrecision, Float8WhereThereIsNoneIsOneLine) {
  const auto model = small_model();
  EXPECT_CONTAINS(error_of([&] { keep_weights_in(*model, WeightFormat::fp8); }),
                  "base_precision=fp8 needs a GPU with float8");
  EXPECT_EQ(keep_weights_in(*model, WeightFormat::plain), 0);
  const auto narrow = load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llama");
  EXPECT_CONTAINS(error_of([&] { keep_weights_in(*narrow, WeightFormat::nf4); }), "can be kept in that format");
}

}  // namespace
}  // namespace asr
