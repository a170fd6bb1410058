// The operators on a few hundred numbers, which exist because the library takes longer to begin than to run: each
// against its plain form.
#include "ops/keyed_dropout.h"
#include "ops/leading_positions.h"
#include "ops/pick_columns.h"
#include "ops/stack_rows.h"
#include "ops/token_weights.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

TEST(TokenWeights, BoolsGiveWhatNumbersGive) {
  torch::manual_seed(12);
  auto valid = torch::rand({6, 9}).gt(0.3), functional = torch::rand({6, 9}).gt(0.6);
  valid.select(1, 0).fill_(true);
  functional[2].fill_(false);
  EXPECT_TRUE(at::equal(token_weights(functional, valid), token_weights(functional.to(at::kFloat), valid)));
  EXPECT_TRUE(at::equal(token_weights_cpu(functional, valid), token_weights_reference(functional, valid)));
  valid[4].fill_(false);
  EXPECT_CONTAINS(error_of([&] { token_weights(functional, valid); }), "sample 4 has no valid token");
}

TEST(TokenWeights, AtRowsAreThoseOfGatheredMasks) {
  torch::manual_seed(13);
  auto functional = torch::rand({5, 9}).gt(0.5), rows = torch::randint(-1, 9, {5, 6});
  rows.select(1, 0).fill_(3);
  functional[2].fill_(false);
  const auto gathered = token_weights(functional.gather(1, rows.clamp_min(0)), rows.ge(0));
  EXPECT_TRUE(at::equal(token_weights_at(functional, rows), gathered));
  EXPECT_TRUE(at::equal(token_weights_at(functional.to(at::kFloat), rows), gathered));
  rows[1][2] = 9;
  EXPECT_CONTAINS(error_of([&] { token_weights_at(functional, rows); }), "position 9 of 9");
  rows[1].fill_(-1);
  EXPECT_CONTAINS(error_of([&] { token_weights_at(functional, rows); }), "sample 1 has no valid token");
  EXPECT_CONTAINS(error_of([&] { token_weights_at(functional, rows.to(at::kInt)); }), "int64");
}

TEST(PickColumns, AgreesWithThePlainForm) {
  torch::manual_seed(15);
  const auto x = torch::randn({7, 6}).t(), columns = torch::tensor({5, 0, 5, 2});  // strided
  EXPECT_TRUE(at::equal(pick_columns_cpu(x, columns), pick_columns_reference(x, columns)));
  EXPECT_TRUE(at::equal(pick_columns(x.to(at::kDouble), columns), pick_columns(x, columns).to(at::kDouble)));
}

TEST(KeyedDropout, BothFormsKeepTheShareAndTheSumAndGiveASampleItsPlace) {
  const auto x = torch::ones({8, 50, 40}).requires_grad_();
  for (const auto form : {keyed_dropout_cpu, keyed_dropout_reference}) {
    const auto whole = form(x, {0.25, 7});
    EXPECT_NEAR(whole.eq(0).to(at::kDouble).mean().item<double>(), 0.25, 0.02);
    EXPECT_TRUE(whole.ne(0).logical_and(whole.sub(4.0 / 3).abs().gt(1e-6)).any().item<bool>() == false);
    EXPECT_TRUE(gradients(whole.sum(), {x})[0].equal(whole));
    EXPECT_TRUE(form(x, {0.25, 7}).equal(whole));
    EXPECT_FALSE(form(x, {0.25, 8}).equal(whole));
    const auto part = form(x.narrow(0, 0, 2), {0.25, 7, {5, 1}});
    EXPECT_TRUE(part[0].equal(whole[5]) && part[1].equal(whole[1]));
  }
}

TEST(KeyedDropout, EveryDeviceDrawsTheSameMask) {
  torch::manual_seed(21);
  for (const auto& [shape, positions] : std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
           {{4, 6, 32}, {}}, {{4, 6, 32}, {9, 2, 0, 7}}, {{3, 7, 5}, {}}, {{3, 7, 5}, {1, 4, 2}}}) {
    const DropoutKey key{0.25, 0xfedcba9876543210, positions};
    const auto x = torch::randn(shape).requires_grad_();
    const auto expected = keyed_dropout_cpu(x, key);
    expect_close(keyed_dropout_reference(x, key), expected, 1e-6, "the plain form");
    for (const auto& device : devices()) {
      const auto there = x.detach().to(device).requires_grad_();
      const auto found = keyed_dropout(there, key);
      EXPECT_TRUE(found.cpu().eq(0).equal(expected.eq(0))) << device;
      expect_close(found.cpu(), expected, 1e-6, "values");
      expect_close(gradients(found.sum(), {there})[0].cpu(), gradients(keyed_dropout_cpu(x, key).sum(), {x})[0], 1e-6,
                   "gradients");
    }
  }
}

TEST(LeadingPositions, AgreesWithThePlainForm) {
  const auto mask = torch::tensor({{1, 0, 1, 1}, {0, 1, 0, 0}}).to(at::kBool);
  EXPECT_TRUE(leading_positions(mask, 3).equal(torch::tensor({{0, -1, 2}, {-1, 1, -1}})));
  EXPECT_TRUE(leading_positions_cpu(mask.t(), 2).equal(leading_positions_reference(mask.t(), 2)));
  EXPECT_TRUE(leading_positions_cpu(2, 5).equal(leading_positions_reference(2, 5, at::kCPU)));
}

TEST(StackRows, AgreesWithThePlainForm) {
  torch::manual_seed(16);
  std::vector<torch::Tensor> layers;
  for (int layer = 0; layer < 3; ++layer) layers.push_back(torch::randn({2, 4, 5, 12}).requires_grad_());
  const auto found = stack_rows_cpu(layers, 3, 4), expected = stack_rows_reference(layers, 3, 4);
  EXPECT_TRUE(at::equal(found, expected));
  const auto factor = torch::randn(found.sizes());
  const auto grads = gradients((found * factor).sum(), layers), right = gradients((expected * factor).sum(), layers);
  for (size_t i = 0; i < layers.size(); ++i) EXPECT_TRUE(at::equal(grads[i], right[i])) << i;
  EXPECT_CONTAINS(error_of([&] { stack_rows(layers, 3, 5); }), "no grid of 3x5");
}

}  // namespace
}  // namespace asr
