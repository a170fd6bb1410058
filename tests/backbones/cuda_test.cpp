// The same models and reference outputs on a GPU, in float32 without TF32. Tolerances: logits 5e-4, attention and image
// features 2e-4, gradients 3e-3 of their largest entry, an adapter after one step 4e-5 on average, tokens equal.
#include <ATen/Context.h>

#include "tensor/runtime.h"
#include "tests/backbones/bfloat16_checks.h"

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

TEST_P(CudaModel, InBfloat16StaysNear) {
  if (IsSkipped()) return;
  EXPECT_LE(bfloat16_ratio(golden, at::kCUDA), kMostBfloat16Ratio);
  at::NoGradGuard no_grad;
  const auto batch = batch_of(golden, at::kCUDA);
  const auto model = open_model(golden.folder, at::kBFloat16, at::kCUDA);
  EXPECT_EQ(model->inspect(batch, Pass{}, {}, batch.mask).hidden.scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace asr
