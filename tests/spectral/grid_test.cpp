#include "spectral/grid.h"

#include "spectral/diagnostics.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

TEST(Grid, PatchesKeepTheirPlaceAndLeadingTokensAreDropped) {
  const auto rows = torch::arange(7, at::kDouble).view({1, 7});
  const auto map = to_grid(rows, patch_layout(2, 3, 1));
  EXPECT_TRUE(at::equal(map, torch::tensor({{{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}}, at::kDouble)));
  const auto plain = to_grid(rows.narrow(1, 1, 6), patch_layout(2, 3));
  EXPECT_TRUE(at::equal(plain, map));
}

TEST(Grid, TilesFormOneLargeGridAndTheThumbnailIsLeftOut) {
  // 1x2 tiles of 2x2 tokens, then a thumbnail.
  const auto rows = torch::arange(12, at::kDouble).view({1, 12});
  const auto map = to_grid(rows, tile_layout(1, 2, 2, true));
  EXPECT_TRUE(at::equal(map, torch::tensor({{{0.0, 1.0, 4.0, 5.0}, {2.0, 3.0, 6.0, 7.0}}}, at::kDouble)));
  EXPECT_TRUE(at::equal(to_grid(rows.narrow(1, 0, 4), tile_layout(1, 1, 2, false)),
                        torch::tensor({{{0.0, 1.0}, {2.0, 3.0}}}, at::kDouble)));
}

TEST(Grid, SharedCellsAreAveragedEmptyOnesAreZeroAndGradientsFlow) {
  const GridLayout layout{1, 3, {0, 0, 2, -1}};
  const auto rows = torch::tensor({{1.0, 3.0, 5.0, 9.0}}, at::kDouble).requires_grad_();
  const auto map = to_grid(rows, layout);
  EXPECT_TRUE(at::equal(map.detach(), torch::tensor({{{2.0, 0.0, 5.0}}}, at::kDouble)));
  EXPECT_TRUE(at::equal(gradients(map.sum(), {rows})[0], torch::tensor({{0.5, 0.5, 1.0, 0.0}}, at::kDouble)));
}

TEST(Grid, ResizingKeepsConstantsAndSmoothMassAndIsDifferentiable) {
  const auto constant = torch::full({2, 3, 16, 12}, 0.25, at::kDouble);
  EXPECT_TRUE(at::allclose(resize_maps(constant, 24, 24), torch::full({2, 3, 24, 24}, 0.25, at::kDouble)));
  EXPECT_TRUE(at::equal(resize_maps(constant, 16, 12), constant));
  const auto maps = torch::rand({1, 32, 46}, at::kDouble).requires_grad_();
  const auto small = resize_maps(maps, 24, 24);
  EXPECT_EQ(small.sizes(), (at::IntArrayRef{1, 24, 24}));
  EXPECT_GE(small.min().item<double>(), 0);
  EXPECT_NEAR(small.mean().item<double>(), maps.mean().item<double>(), 0.02);
  EXPECT_GT(gradients(small.sum(), {maps})[0].abs().min().item<double>(), 0) << "with antialias every cell counts";
}

TEST(Grid, MismatchesAreNamed) {
  EXPECT_CONTAINS(error_of([] {
                    to_grid(torch::ones({1, 5}), patch_layout(2, 3));
                  }),
                  "5 visual columns but the layout names 6");
  EXPECT_CONTAINS(error_of([] { to_grid(torch::ones({1, 1}), GridLayout{1, 1, {4}}); }), "cell 4");
  EXPECT_CONTAINS(error_of([] { patch_layout(0, 3); }), "empty");
  EXPECT_CONTAINS(error_of([] { resize_maps(torch::ones({4, 4}), 0, 3); }), "resize");
}

TEST(Diagnostics, EntropyOfUniformAndPointMaps) {
  auto maps = torch::zeros({1, 2, 4, 4}, at::kDouble);
  maps[0][0].fill_(1.0 / 16);
  maps[0][1][2][3] = 1;
  EXPECT_NEAR(attention_entropy(maps).item<double>(), std::log(16.0) / 2, 1e-12);
}

TEST(Diagnostics, SixNumberSummary) {
  const Vector radial = {1, 2, 3, 4, 5, 6, 7, 8}, anisotropy = {1, 2, 3, 4, 5, 6, 7, 8};
  // Centres 1/16, 3/16, 5/16 | 7/16, 9/16 | ...; orientations fold to 22.5, 67.5, 112.5, 157.5 twice.
  const auto s = six_number_summary(radial, anisotropy);
  const double expected[] = {1 + 2 + 3, 4 + 5, 6 + 7 + 8, (1 + 5) / 2.0, (2 + 3 + 6 + 7) / 4.0, (4 + 8) / 2.0};
  for (int i = 0; i < 6; ++i) EXPECT_DOUBLE_EQ(s[i], expected[i]) << i;
}

TEST(Diagnostics, SeparationAndRiskFit) {
  EXPECT_DOUBLE_EQ(separation({{0, 0}, {0, 2}, {4, 0}, {4, 2}}, {1, 1, 5, 5}), 4);
  EXPECT_CONTAINS(error_of([] { separation({{0, 0}, {0, 2}}, {1, 1}); }), "two skills");
  const auto fit = fit_risk({1, 2, 3}, {2, 4.5, 6});
  EXPECT_NEAR(fit.lipschitz, (2 + 9 + 18) / 14.0, 1e-12);
  EXPECT_NEAR(fit.epsilon, (4.5 - 2 * fit.lipschitz) / 2, 1e-12);
  EXPECT_EQ(fit_risk({1, 2}, {-1, -2}).lipschitz, 0);
}

TEST(Diagnostics, NormalQuantilesAndNonGaussianity) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-12);
  EXPECT_NEAR(normal_quantile(1e-10), -6.361340902404056, 1e-9);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-15);
  std::vector<Vector> gaussian, uniform;
  for (int i = 0; i < 500; ++i) {
    gaussian.push_back({normal_quantile((i + 0.5) / 500)});
    uniform.push_back({std::sqrt(12.0) * ((i + 0.5) / 500 - 0.5)});
  }
  EXPECT_LT(non_gaussianity(gaussian, {{0}, {1}}), 1e-9);
  // W2^2 of the unit-variance uniform to N(0, 1) is 2 - 2 sqrt(12) E[(U - 1/2) z(U)] = 2 - 2 sqrt(3/pi).
  EXPECT_NEAR(non_gaussianity(uniform, {{0}, {1}}), std::sqrt(2 - 2 * std::sqrt(3 / M_PI)), 5e-3);
}

TEST(Diagnostics, JensenShannonHandlesEmptyBins) {
  EXPECT_NEAR(jensen_shannon({1, 0}, {0, 1}), std::log(2.0), 1e-15);
  EXPECT_EQ(jensen_shannon({0.5, 0.5}, {0.5, 0.5}), 0);
  EXPECT_TRUE(std::isinf(memory_error({{0}, {1}}, {{0}, {3}}).xi)) << "rho >= 1: no bound";
}

}  // namespace
}  // namespace asr
