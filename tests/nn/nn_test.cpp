#include "nn/attention.h"
#include "nn/decoder.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

TEST(Attention, RowsOfTheTapAreThoseOfTheFullMatrix) {
  torch::manual_seed(1);
  const int64_t B = 2, heads = 3, S = 9, d = 4;
  const auto q = torch::randn({B, heads, S, d}, at::kDouble), k = torch::randn({B, heads, S, d}, at::kDouble);
  auto mask = torch::ones({B, S}, at::kBool);
  mask[1].slice(0, 7).fill_(false);
  auto scores = q.matmul(k.transpose(2, 3)) / 2;
  const auto causal = torch::ones({S, S}, at::kBool).tril();
  scores = scores.masked_fill(causal.logical_and(mask.view({B, 1, 1, S})).logical_not(), -INFINITY);
  const auto full = scores.softmax(-1);
  TapRequest request;
  request.rows = torch::tensor({{8, 5, -1}, {6, 2, 4}});
  request.columns = torch::tensor({{0, 1, 2, 3}, {3, 2, 1, -1}});
  const auto found = attention_rows(q, k, mask, true, request);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t v = 0; v < 4; ++v) {
        const int64_t row = request.rows[b][t].item<int64_t>(), column = request.columns[b][v].item<int64_t>();
        for (int64_t h = 0; h < heads; ++h)
          EXPECT_NEAR(found[b][h][t][v].item<double>(),
                      row < 0 || column < 0 ? 0 : full[b][h][row][column].item<double>(), 1e-12);
      }
}

TEST(Tap, SlicesEqualGathers) {
  torch::manual_seed(5);
  const auto q = torch::randn({2, 3, 9, 4}, at::kDouble).requires_grad_(),
             k = torch::randn({2, 3, 9, 4}, at::kDouble).requires_grad_();
  auto mask = torch::ones({2, 9}, at::kBool);
  mask[1][8] = false;
  for (const bool causal : {true, false}) {
    TapRequest request;
    request.rows = torch::tensor({{4, 5, 6}, {4, 5, -1}});
    request.columns = torch::arange(4).expand({2, 4});
    const auto gathered = attention_rows(q, k, mask, causal, request);
    request.first_row = 4;
    request.first_column = 0;
    const auto sliced = attention_rows(q, k, mask, causal, request);
    EXPECT_TRUE(at::allclose(gathered, sliced, 1e-12, 1e-14));
    const auto weight = torch::randn_like(gathered);
    const auto a = gradients((gathered * weight).sum(), {q, k}), b = gradients((sliced * weight).sum(), {q, k});
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(a[i], b[i], 1e-10, 1e-12));
  }
}

TEST(Attention, GroupedKeysAreSharedByTheirHeads) {
  torch::manual_seed(2);
  const auto q = torch::randn({1, 4, 5, 8}), k = torch::randn({1, 2, 5, 8}), v = torch::randn({1, 2, 5, 8});
  const auto mask = torch::ones({1, 5}, at::kBool);
  const auto grouped = attend(q, k, v, mask, true);
  const auto repeated = attend(q, k.index_select(1, torch::tensor({0, 0, 1, 1})),
                               v.index_select(1, torch::tensor({0, 0, 1, 1})), mask, true);
  EXPECT_TRUE(at::allclose(grouped, repeated));
}

TEST(Attention, RotationDependsOnDistanceOnly) {
  torch::manual_seed(3);
  const auto q = torch::randn({1, 1, 1, 16}, at::kDouble), k = torch::randn({1, 1, 1, 16}, at::kDouble);
  const auto product = [&](int64_t a, int64_t b) {
    return (rotate(q, torch::tensor({{a}}), 10000) * rotate(k, torch::tensor({{b}}), 10000)).sum().item<double>();
  };
  EXPECT_NEAR(product(7, 3), product(104, 100), 1e-9);
  EXPECT_GT(std::abs(product(7, 3) - product(7, 4)), 1e-6);
}

TEST(Linear, ExpertsStartAtZeroAndCanBeSwitchedOff) {
  torch::manual_seed(4);
  Linear linear{torch::randn({6, 5}), torch::randn({6}), {}};
  const auto x = torch::randn({3, 5}), plain = linear(x, {});
  auto generator = at::detail::createCPUGenerator(7);
  linear.slots.push_back({{make_expert(linear, 2, 4, generator)}, {}, {}, {}});
  EXPECT_TRUE(at::equal(linear(x, {}), plain));
  at::NoGradGuard no_grad;
  linear.slots[0].experts[0].b.normal_();
  const auto expected = plain + x.matmul(linear.slots[0].experts[0].a.t()).matmul(linear.slots[0].experts[0].b.t()) * 2;
  EXPECT_TRUE(at::allclose(linear(x, {}), expected, 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(linear(x, Pass{0, nullptr}), plain));
}

}  // namespace
}  // namespace asr
