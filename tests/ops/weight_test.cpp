// Weights as the products take them: a tensor is a plain one, and a format that nothing reads is one clear error.
#include "ops/weight.h"

#include "ops/adapted_linear.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

TEST(Weight, APlainOneIsItsTensorWithoutACopy) {
  const auto numbers = torch::randn({4, 3});
  EXPECT_TRUE(values_of(numbers, at::kFloat).is_same(numbers));
  EXPECT_EQ(values_of(numbers.to(at::kBFloat16), at::kFloat).scalar_type(), at::kFloat);
}

TEST(Weight, WhatCannotBeReadIsOneError) {
  Weight weight = torch::randn({4, 3});
  weight.scale = torch::ones({4});
  EXPECT_CONTAINS(error_of([&] { values_of(weight, at::kFloat); }), "a plain weight has no scale");
  weight.format = static_cast<WeightFormat>(7);
  const auto x = torch::randn({2, 3});
  EXPECT_CONTAINS(error_of([&] { adapted_linears(x, {{weight, {}, {}}}); }), "weight format 7 is unknown");
  EXPECT_CONTAINS(error_of([&] { adapted_linear_reference(x, {weight, {}, {}}); }), "weight format 7 is unknown");
}

}  // namespace
}  // namespace asr
