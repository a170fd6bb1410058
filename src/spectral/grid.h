// From rows of visual-token attention to two-dimensional maps (paper, "Visual-Grid Reconstruction").
// A backbone describes its visual tokens by a layout; everything here is differentiable.
#pragma once

#include <torch/types.h>

#include <vector>

namespace asr {

// cell[v] is the grid cell (row * width + column) of visual token v, or -1 for a token outside the grid
// (a thumbnail, a CLS column). Several tokens of one cell are averaged; a cell without tokens is 0.
struct GridLayout {
  int64_t height = 0, width = 0;
  std::vector<int64_t> cell;
};

GridLayout patch_layout(int64_t height, int64_t width, int64_t leading_tokens = 0);  // one patch a cell
// Tiles of tile x tile tokens in row-major order laid out as one large grid; a thumbnail that follows them
// is left out unless it is the only tile.
GridLayout tile_layout(int64_t tile_rows, int64_t tile_columns, int64_t tile, bool thumbnail);

torch::Tensor to_grid(const torch::Tensor& rows, const GridLayout& layout);  // [..., V] -> [..., H, W]

// Bilinear with antialiasing, corners not aligned, clamped at 0; the identity where sizes agree.
torch::Tensor resize_maps(const torch::Tensor& maps, int64_t height, int64_t width);  // [..., H, W]

}  // namespace asr
