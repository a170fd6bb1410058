// Hand-written gradients in the graph against those of plain operators.
#include "tensor/record.h"

#include "tensor/torch_compat.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

// x and x * y, as a fused operation would make them.
std::vector<torch::Tensor> doubled_and_product(const torch::Tensor& x, const torch::Tensor& y) {
  const bool with_grad = needs_gradient({x, y});
  at::NoGradGuard no_grad;
  const auto a = x.detach(), b = y.detach();
  std::vector<torch::Tensor> out = {a * 2, a * b};
  if (with_grad)
    record("a test", {x, y}, out, [a, b](const std::vector<torch::Tensor>& grads) {
      const auto first = grads[0].defined() ? grads[0] * 2 : torch::zeros_like(a),
                 second = grads[1].defined() ? grads[1] : torch::zeros_like(a);
      return std::vector<torch::Tensor>{first + second * b, second * a};
    });
  return out;
}

TEST(Record, GradientsReachTheInputsFromOneOutputOrBoth) {
  const auto x = torch::randn({5}).requires_grad_(), y = torch::randn({5}).requires_grad_();
  for (const int which : {0, 1, 2}) {
    const auto loss = [&](const std::vector<torch::Tensor>& out) {
      return which == 0 ? out[0].square().sum() : which == 1 ? out[1].exp().sum() : (out[0] * out[1]).sum();
    };
    const auto found = gradients(loss(doubled_and_product(x, y)), {x, y}),
               expected = gradients(loss({x * 2, x * y}), {x, y});
    expect_close(found[0], expected[0], 1e-6, "x");
    if (expected[1].defined()) expect_close(found[1], expected[1], 1e-6, "y");
  }
}

TEST(Record, NothingIsRecordedWhereNobodyAsks) {
  const auto x = torch::randn({3}), y = torch::randn({3});
  EXPECT_FALSE(doubled_and_product(x, y)[1].requires_grad());
  const auto learnt = torch::randn({3}).requires_grad_();
  at::NoGradGuard no_grad;
  EXPECT_FALSE(doubled_and_product(learnt, y)[1].requires_grad());
  EXPECT_FALSE(needs_gradient({learnt, torch::Tensor()}));
}

TEST(Record, InputsWithoutGradientAreLeftAlone) {
  const auto x = torch::randn({3}), y = torch::randn({3}).requires_grad_();
  const auto grads = gradients(doubled_and_product(x, y)[1].sum(), {y});
  EXPECT_TRUE(grads[0].equal(x));
}

TEST(Record, ARetainedGraphRunsAgainAndAnotherIsRefused) {
  const auto x = torch::randn({3}).requires_grad_(), y = torch::randn({3});
  const auto sum = doubled_and_product(x, y)[1].sum();
  sum.backward({}, /*retain_graph=*/true);
  sum.backward();
  expect_close(x.grad(), 2 * y, 1e-6, "two passes");
  EXPECT_CONTAINS(error_of([&] { sum.backward(); }), "ran twice");
  const auto again = doubled_and_product(x, y)[1].square().sum();
  EXPECT_CONTAINS(error_of([&] { torch::autograd::grad({again}, {x}, {}, none, /*create_graph=*/true); }),
                  "a test has no second derivative");
}

TEST(Record, KnownGradientsAreScaledByWhatComes) {
  const auto x = torch::randn({4}).requires_grad_();
  const auto loss = with_gradients("a test", x.detach().square().sum(), {x}, {2 * x.detach()});
  expect_close(gradients(loss * 3, {x})[0], 6 * x.detach(), 1e-6, "three times");
}

TEST(Record, AWeightedSumIsThatOfPlainOperators) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto x = torch::randn({4}).to(type).requires_grad_();
    const auto found = weighted_sum({{x.sum(), 1}, {x.square().sum(), 0.25}, {x.exp().sum(), -3}}),
               expected = x.sum() + 0.25 * x.square().sum() - 3 * x.exp().sum();
    EXPECT_EQ(found.scalar_type(), type);
    expect_close(found, expected, 1e-6, "sum");
    expect_close(gradients(found * 2, {x})[0], gradients(expected * 2, {x})[0], 1e-6, "gradient");
  }
  EXPECT_EQ(weighted_sum({{torch::tensor(2.0), 3}}).item<double>(), 6);
}

TEST(Record, ASumPassesKnownGradientsOnAndLeavesTheirTermsWhole) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto x = torch::randn({4}).to(type).requires_grad_(), y = torch::randn({4}).to(type).requires_grad_();
    const auto plain = y.exp().sum();
    const auto product = with_gradients("a test", (x * y).sum().detach(), {x, y}, {y.detach(), x.detach()});
    const auto sum = weighted_sum({{plain, 1}, {product, 0.5}, {product, -2}});
    const auto expected = y.exp().sum() - 1.5 * (x * y).sum();
    const auto wanted = gradients(expected * 3, {x, y});
    sum.mul(3).backward({}, /*retain_graph=*/true);
    expect_close(x.grad(), wanted[0], 1e-6, "x");
    expect_close(y.grad(), wanted[1], 1e-6, "y");
    expect_close(gradients(product, {x})[0], y.detach(), 1e-6, "the term by itself, after the sum");
  }
}

}  // namespace
}  // namespace asr
