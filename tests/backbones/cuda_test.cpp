// The same models and reference outputs on a GPU, in float32 without TF32. Tolerances: logits 5e-4, attention and image
// features 2e-4, gradients 3e-3 of their largest entry, an adapter after one step 4e-5 on average, tokens equal.
#include <ATen/Context.h>

#include "tensor/runtime.h"
#include "tests/backbones/reference_checks.h"

namespace asr {
namespace {

class CudaModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!runtime_info().cuda) GTEST_SKIP() << "there is no GPU here";
    at::globalContext().setAllowTF32CuBLAS(false);
    golden = open_reference(GetParam());
  }
  Golden golden;
};
INSTANTIATE_TEST_SUITE_P(All, CudaModel, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

// Made where it is used: a device index is looked up on machines with a GPU alone.
Setting on_gpu() {
  return {at::kCUDA, at::kFloat, 5e-4, 2e-4, 3e-3, 4e-5};
}

TEST_P(CudaModel, GivesTheSameNumbers) {
  if (!IsSkipped()) check_numbers(golden, on_gpu());
}

TEST_P(CudaModel, GeneratesTheSameTokens) {
  if (!IsSkipped()) check_tokens(golden, at::kCUDA, at::kFloat);
}

TEST_P(CudaModel, AdaptersGiveTheSameGradientsAndStep) {
  if (!IsSkipped()) check_adapter(golden, on_gpu());
}

// A bfloat16 model is not compared number by number: its last bits are rounding. It must be near and know its way.
TEST_P(CudaModel, InBfloat16StaysNear) {
  if (IsSkipped()) return;
  at::NoGradGuard no_grad;
  const auto batch = batch_of(golden, at::kCUDA);
  const auto model = open_model(golden.folder, at::kBFloat16, at::kCUDA);
  const auto hidden = model->inspect(batch, Pass{}, {}, batch.mask).hidden;
  EXPECT_EQ(hidden.scalar_type(), at::kBFloat16);
  const auto logits = model->language().logits(hidden).to(at::kFloat).cpu().index({batch.mask.cpu()});
  const auto expected = golden.real("out.logits").index({batch.mask.cpu()});
  EXPECT_LE(apart(logits, expected), 0.1 * (1 + expected.abs().max().item<double>()));
}

}  // namespace
}  // namespace asr
