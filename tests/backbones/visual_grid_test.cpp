#include "backbones/visual_grid.h"

#include <gtest/gtest.h>

#include "backbones/rows.h"
#include "base/error.h"
#include "tensor/torch_compat.h"

namespace asr {
namespace {

TEST(VisualGrid, OnePatchACellIsAView) {
  const auto rows = torch::rand({2, 1, 2, 3, 6});
  const auto maps = grid_maps(rows, {{{0, 6, 2, 3, {}}}, {{0, 6, 2, 3, {}}}}, 2, 3);
  EXPECT_TRUE(maps.equal(rows.view({2, 1, 2, 3, 2, 3})));
}

TEST(VisualGrid, TokensOfACellAreAveragedAndMissingOnesLeftOut) {
  const auto rows = torch::tensor({1.0, 3.0, 5.0, 100.0}).view({1, 1, 1, 1, 4});
  const auto maps = grid_maps(rows, {{{0, 4, 1, 3, {2, 2, 0, -1}}}}, 1, 3);
  EXPECT_TRUE(maps.flatten().equal(torch::tensor({5.0, 0.0, 2.0})));
}

TEST(VisualGrid, TilesLieRowMajorOnOneGrid) {
  // Two tiles of 2x1 side by side: cells are read across the tiles.
  const auto rows = torch::tensor({1.0, 2.0, 3.0, 4.0}).view({1, 1, 1, 1, 4});
  const auto maps = grid_maps(rows, {{{0, 4, 2, 2, {0, 2, 1, 3}}}}, 2, 2);
  EXPECT_TRUE(maps.flatten().equal(torch::tensor({1.0, 3.0, 2.0, 4.0})));
}

TEST(VisualGrid, OtherShapesAreResizedAndKeepTheirMean) {
  const auto rows = torch::rand({2, 1, 1, 1, 16}, at::kDouble);
  const auto maps = grid_maps(rows, {{{0, 16, 4, 4, {}}}, {{0, 8, 4, 2, {}}}}, 2, 2);
  EXPECT_EQ(maps.sizes(), (at::IntArrayRef{2, 1, 1, 1, 2, 2}));
  const auto expected = at::_upsample_bilinear2d_aa(rows[0].view({1, 1, 4, 4}), {2, 2}, false);
  EXPECT_TRUE(maps[0].flatten().allclose(expected.flatten()));
  EXPECT_GE(maps.min().item<double>(), 0);
}

TEST(VisualGrid, ResizingIsTheLibrarysBothWays) {
  torch::manual_seed(2);
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{16, 12}, {5, 40}, {24, 7}, {1, 1}}) {
    const auto rows = torch::rand({2, 2, 3, 2, height * width});
    const SampleCells sample = {{0, height * width, height, width, {}}};
    const auto maps = grid_maps(rows, {sample, sample}, 24, 24);
    const auto expected = at::_upsample_bilinear2d_aa(rows.view({1, -1, height, width}), {24, 24}, false);
    EXPECT_TRUE(maps.allclose(expected.view({2, 2, 3, 2, 24, 24}), 1e-5, 1e-6)) << height << "x" << width;
    const auto constant = grid_maps(torch::full_like(rows, 0.25), {sample, sample}, 24, 24);
    EXPECT_TRUE(constant.allclose(torch::full_like(constant, 0.25)));
  }
}

TEST(VisualGrid, SeveralPicturesAreAveraged) {
  const auto rows = torch::tensor({1.0, 2.0, 5.0, 6.0}).view({1, 1, 1, 1, 4});
  const auto maps = grid_maps(rows, {{{0, 2, 1, 2, {}}, {2, 2, 1, 2, {}}}}, 1, 2);
  EXPECT_TRUE(maps.flatten().equal(torch::tensor({3.0, 4.0})));
}

TEST(VisualGrid, GradientsReachEveryToken) {
  const auto rows = torch::rand({1, 1, 1, 1, 6}, at::kDouble).requires_grad_();
  const auto maps = grid_maps(rows, {{{0, 6, 2, 3, {5, 4, 3, 2, 1, 0}}}}, 4, 4);
  const auto grad = gradients((maps * at::arange(16, at::kDouble).view({4, 4})).sum(), {rows})[0];
  EXPECT_TRUE(grad.ne(0).all().item<bool>());
}

TEST(VisualGrid, AGridThatDoesNotMatchIsAnError) {
  EXPECT_THROW(grid_maps(torch::rand({1, 1, 1, 1, 6}), {{{0, 6, 2, 2, {}}}}, 4, 4), Error);
  EXPECT_THROW(grid_maps(torch::rand({1, 1, 1, 1, 6}), {{}}, 4, 4), Error);
}

TEST(Rows, PositionsAndRightAlignment) {
  const auto mask = torch::tensor({{1, 0, 1, 1}, {0, 1, 0, 0}}).to(at::kBool);
  EXPECT_TRUE(positions_of(mask).equal(torch::tensor({{0, 2, 3}, {1, -1, -1}})));
  const auto aligned = right_aligned(mask);
  EXPECT_TRUE(aligned.real.equal(torch::tensor({{1, 1, 1}, {0, 0, 1}}).to(at::kBool)));
  EXPECT_TRUE(aligned.column.equal(torch::tensor({{0, 2, 3}, {1, 1, 1}})));
}

}  // namespace
}  // namespace asr
