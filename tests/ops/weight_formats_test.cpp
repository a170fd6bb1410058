// Weights in fewer bits: how far they are from what they were made of, and products of them against products of what
// they hold.
#include <cmath>

#include "ops/adapted_linear.h"
#include "ops/cuda_tensors.h"
#include "ops/weight.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

TEST(WeightFormats, Nf4KeepsSixteenValuesAStretch) {
  torch::manual_seed(5);
  const auto w = torch::randn({6, 128});
  const auto packed = packed_nf4(w);
  EXPECT_EQ(packed.rows(), 6);
  EXPECT_EQ(packed.columns(), 128);
  EXPECT_EQ(packed.data.nbytes(), static_cast<size_t>(6 * 64));
  const auto back = values_of(packed, at::kFloat);
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t stretch = 0; stretch < 2; ++stretch) {
      const auto from = w[row].narrow(0, stretch * 64, 64), to = back[row].narrow(0, stretch * 64, 64);
      // The largest entry is kept to its sign, and nothing moves by more than half of the widest gap, 0.152 of it.
      const double most = from.abs().max().item<double>();
      EXPECT_NEAR(to.abs().max().item<double>(), most, 1e-6);
      EXPECT_LE((from - to).abs().max().item<double>(), 0.1525 * most);
    }
  EXPECT_LT((back - w).norm().item<double>() / w.norm().item<double>(), 0.11);
  EXPECT_TRUE(values_of(packed_nf4(back), at::kFloat).allclose(back, 1e-6, 1e-7));  // again: nothing changes
  EXPECT_TRUE(values_of(packed_nf4(torch::zeros({1, 64})), at::kFloat).equal(torch::zeros({1, 64})));
  EXPECT_CONTAINS(error_of([&] { packed_nf4(torch::randn({2, 100})); }), "whole stretches of 64");
}

TEST(WeightFormats, ProductsOfNf4AreThoseOfItsNumbers) {
  torch::manual_seed(6);
  for (const auto& device : devices()) {
    const auto packed = packed_nf4((torch::randn({24, 64}) * 0.1).to(device));
    const auto x = torch::randn({5, 64}).to(device).requires_grad_();
    const auto y = adapted_linears(x, {{packed, {}, {}}})[0];
    const auto plain = unpacked_nf4_reference(packed, at::kFloat);
    expect_close(y, at::linear(x, plain), 1e-5, "y");
    expect_close(gradients(y.square().sum(), {x})[0], gradients(at::linear(x, plain).square().sum(), {x})[0], 1e-5,
                 "dx");
    expect_close(unpacked_nf4(packed, at::kBFloat16), plain.to(at::kBFloat16), 1e-6, "bfloat16");
  }
}

TEST(WeightFormats, WhatFloat8LacksIsOneLine) {
  EXPECT_EQ(missing_for_fp8({true, true, 89, true}), "");
  EXPECT_EQ(missing_for_fp8({true, true, 90, true}), "");
  EXPECT_EQ(missing_for_fp8({true, true, 80}),
            "base_precision=fp8 needs a GPU with float8, of compute capability 8.9 or newer; this one has 8.0; use "
            "plain, or nf4 to save memory");
  EXPECT_CONTAINS(missing_for_fp8({true, true, 120, false}),
                  "no products of float8 for a GPU of compute capability 12.0");
  EXPECT_CONTAINS(missing_for_fp8({true, false, 90}), "needs a program with CUDA kernels");
  EXPECT_CONTAINS(missing_for_fp8({false, true, 90}), "needs libtorch 2.5 or newer");
}

// All numbers of e4m3, by its definition: four bits of exponent with bias 7, three behind the point, none infinite.
std::vector<double> e4m3_numbers() {
  std::vector<double> out;
  for (int exponent = 0; exponent < 16; ++exponent)
    for (int behind = 0; behind < 8; ++behind) {
      if (exponent == 15 && behind == 7) continue;  // no number
      const double size = exponent == 0 ? std::ldexp(behind, -9) : std::ldexp(8 + behind, exponent - 10);
      out.push_back(size);
      out.push_back(-size);
    }
  return out;
}

TEST(WeightFormats, E4m3IsTheNearestOfItsNumbers) {
  torch::manual_seed(8);
  const auto numbers = torch::tensor(e4m3_numbers(), at::kDouble);
  EXPECT_EQ(numbers.max().item<double>(), 448);
  EXPECT_TRUE(rounded_e4m3(numbers.to(at::kFloat)).equal(numbers.to(at::kFloat)));
  const auto x = at::cat({torch::randn({2000}) * 0.01, torch::randn({2000}) * 100, torch::randn({2000}) * 1e-4});
  const auto kept = x.clamp(-448, 448);
  const auto away = (kept.to(at::kDouble).unsqueeze(1) - numbers.unsqueeze(0)).abs();
  const auto least = std::get<0>(away.min(1));
  EXPECT_TRUE((rounded_e4m3(kept).to(at::kDouble) - kept.to(at::kDouble)).abs().equal(least));
  const auto between = torch::tensor({17.0f, 19.0f, 0.0009765625f});  // 16|18, 18|20 and half of the least number
  EXPECT_TRUE(rounded_e4m3(between).equal(torch::tensor({16.0f, 20.0f, 0.0f}))) << rounded_e4m3(between);
}

TEST(WeightFormats, ProductsOfFp8AreThoseOfItsNumbers) {
  torch::manual_seed(9);
  const auto w = torch::randn({24, 32}) * 0.1;
  const auto packed = in_format(w, WeightFormat::fp8);
  expect_close(values_of(packed, at::kFloat), w, 1.0 / 16, "the weight");
  const auto x = torch::randn({5, 32}).requires_grad_();
  const auto y = adapted_linears(x, {{packed, {}, {}}})[0];
  const auto rounded = [](const torch::Tensor& rows) {
    const auto fp8 = fp8_rows_reference(rows);
    return fp8.data * fp8.scale;
  };
  expect_close(y, at::linear(rounded(x.detach()), values_of(packed, at::kFloat)), 1e-5, "y");
  const auto factor = torch::randn({5, 24});
  const auto dx = gradients((y * factor).sum(), {x})[0];
  const auto turned = packed.turned * packed.turned_scale;  // [in, out]
  expect_close(dx, at::linear(rounded(factor), turned), 1e-5, "dx");
}

TEST(WeightFormats, ProductsOfFp8StayNear) {
  if (!has_cuda_kernels() || !runtime_info().cuda || !has_fp8(at::kCUDA)) GTEST_SKIP() << "no float8 here";
  torch::manual_seed(7);
  const auto distance = [](const torch::Tensor& a, const torch::Tensor& b) {
    return ((a - b).to(at::kFloat).norm() / b.to(at::kFloat).norm()).item<double>();
  };
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto w = (torch::randn({96, 64}) * 0.1).to(type).to(at::kCUDA);
    const auto weight = in_format(w, WeightFormat::fp8);
    // A float8 has three bits behind the point: half a unit is 1/16 of a number, less in sums.
    expect_close(values_of(weight, at::kFloat), w.to(at::kFloat), 1.0 / 16, "the weight");
    const auto x = torch::randn({32, 64}).to(type).to(at::kCUDA).requires_grad_();
    const auto y = adapted_linears(x, {{weight, {}, {}}, {w, {}, {}}});
    const auto factor = torch::randn({32, 96}).to(type).to(at::kCUDA);
    const auto few = gradients((y[0] * factor).sum(), {x})[0];
    const auto full = gradients((adapted_linears(x, {{w, {}, {}}})[0] * factor).sum(), {x})[0];
    EXPECT_LT(distance(y[0], y[1]), 0.06) << at::toString(type);
    EXPECT_LT(distance(few, full), 0.06) << at::toString(type);
  }
}

}  // namespace
}  // namespace asr
