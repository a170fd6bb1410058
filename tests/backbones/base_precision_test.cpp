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

// Every product rounds both its factors to three bits behind the point, which moves it by less than four bits do.
TEST(BasePrecision, Float8OnACpuRoundsAsAGpuDoes) {
  const auto eight = small_model(), four = small_model(), plain = small_model();
  torch::manual_seed(4);
  EXPECT_EQ(keep_weights_in(*eight, WeightFormat::fp8), 7 * eight->layers());
  keep_weights_in(*four, WeightFormat::nf4);
  const auto sites = eight->all_sites(), fewer = four->all_sites(), before = plain->all_sites();
  for (size_t i = 0; i < sites.size(); ++i) {
    if (!sites[i].linear->few_bits.defined()) continue;
    const auto x = torch::randn({32, before[i].linear->weight.size(1)});
    const auto expected = (*before[i].linear)(x, Pass{0});
    const auto distance = [&](const Linear& linear) {
      return ((linear(x, Pass{0}) - expected).norm() / expected.norm()).item<double>();
    };
    EXPECT_GT(distance(*sites[i].linear), 0.01) << sites[i].name;
    EXPECT_LT(distance(*sites[i].linear), 0.06) << sites[i].name;
    EXPECT_LT(distance(*sites[i].linear), distance(*fewer[i].linear)) << sites[i].name;
  }
}

TEST(BasePrecision, FormatsThatNothingTakesAreOneLine) {
  const auto model = small_model();
  EXPECT_EQ(keep_weights_in(*model, WeightFormat::plain), 0);
  const auto narrow = load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llama");
  EXPECT_CONTAINS(error_of([&] { keep_weights_in(*narrow, WeightFormat::nf4); }), "can be kept in that format");
}

}  // namespace
}  // namespace asr
