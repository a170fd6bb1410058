// From attention over visual tokens to maps on a grid (docs/maths.md, rows and grid): every token belongs to a cell of
// its picture, a cell is the mean of its tokens, and pictures of other shapes are brought to one grid by bilinear
// interpolation with antialiasing. Differentiable throughout.
#pragma once

#include <torch/types.h>

#include <vector>

namespace asr {

// The visual tokens of one picture: a stretch of a sample's columns.
struct ImageCells {
  int64_t first = 0, count = 0;
  int64_t height = 0, width = 0;  // cells
  std::vector<int64_t> cell;      // of each token, -1 for none; empty: token i is cell i
};
using SampleCells = std::vector<ImageCells>;  // several pictures are averaged

// rows [B, L, heads, T, V] -> [B, L, heads, T, height, width]
torch::Tensor grid_maps(const torch::Tensor& rows, const std::vector<SampleCells>& samples, int64_t height,
                        int64_t width);

}  // namespace asr
