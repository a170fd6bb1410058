// A bfloat16 model is not compared number by number: its last bits are rounding. What rounding may do depends on the
// model, so the bound is measured on it, in double.
#include "tests/backbones/bfloat16_checks.h"

namespace asr {
namespace {

class Bfloat16Model : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Bfloat16Model, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(Bfloat16Model, StaysAsNearAsItsRoundings) {
  auto golden = open_reference(GetParam());
  if (IsSkipped()) return;
  const double ratio = bfloat16_ratio(golden, at::kCPU);
  EXPECT_LE(ratio, kMostBfloat16Ratio);
  EXPECT_GT(ratio, 0.5) << "computed in more bits than asked for";
  EXPECT_GT(bfloat16_ratio(golden, at::kCPU, 16 * kHalfEpsilon), kMostBfloat16Ratio) << "four bits less are noticed";
}

}  // namespace
}  // namespace asr
