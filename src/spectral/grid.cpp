#include "spectral/grid.h"

#include "base/error.h"
#include "tensor/torch_compat.h"

namespace asr {

GridLayout patch_layout(int64_t height, int64_t width, int64_t leading_tokens) {
  check(height > 0 && width > 0 && leading_tokens >= 0, "patch grid of ", height, "x", width, " is empty");
  GridLayout layout{height, width, std::vector<int64_t>(leading_tokens, -1)};
  for (int64_t i = 0; i < height * width; ++i) layout.cell.push_back(i);
  return layout;
}

GridLayout tile_layout(int64_t tile_rows, int64_t tile_columns, int64_t tile, bool thumbnail) {
  check(tile_rows > 0 && tile_columns > 0 && tile > 0, "tile grid of ", tile_rows, "x", tile_columns, " is empty");
  GridLayout layout{tile_rows * tile, tile_columns * tile, {}};
  for (int64_t row = 0; row < tile_rows; ++row)
    for (int64_t column = 0; column < tile_columns; ++column)
      for (int64_t y = 0; y < tile; ++y)
        for (int64_t x = 0; x < tile; ++x) layout.cell.push_back((row * tile + y) * layout.width + column * tile + x);
  if (thumbnail) layout.cell.insert(layout.cell.end(), tile * tile, -1);
  return layout;
}

torch::Tensor to_grid(const torch::Tensor& rows, const GridLayout& layout) {
  const auto tokens = static_cast<int64_t>(layout.cell.size());
  check(rows.dim() >= 1 && rows.size(-1) == tokens, "attention has ", rows.dim() ? rows.size(-1) : 0,
        " visual columns but the layout names ", tokens);
  const int64_t cells = layout.height * layout.width;
  std::vector<double> count(cells, 0);
  for (int64_t cell : layout.cell) {
    check(cell >= -1 && cell < cells, "visual token assigned to cell ", cell, " of a grid of ", cells);
    if (cell >= 0) ++count[cell];
  }
  auto shape = rows.sizes().vec();
  shape.back() = layout.height, shape.push_back(layout.width);
  // Most backbones have one token a cell in order; others average by a matrix of 1/count.
  bool identity = tokens == cells;
  for (int64_t v = 0; identity && v < tokens; ++v) identity = layout.cell[v] == v;
  if (identity) return rows.reshape(shape);
  torch::Tensor weights = torch::zeros({tokens, cells}, at::kDouble);
  auto entry = weights.accessor<double, 2>();
  for (int64_t v = 0; v < tokens; ++v)
    if (layout.cell[v] >= 0) entry[v][layout.cell[v]] = 1 / count[layout.cell[v]];
  return rows.matmul(weights.to(rows.options().requires_grad(false))).reshape(shape);
}

torch::Tensor resize_maps(const torch::Tensor& maps, int64_t height, int64_t width) {
  check(maps.dim() >= 2 && height > 0 && width > 0, "cannot resize maps to ", height, "x", width);
  if (maps.size(-2) == height && maps.size(-1) == width) return maps;
  auto shape = maps.sizes().vec();
  const auto flat = maps.reshape({-1, 1, maps.size(-2), maps.size(-1)});
  shape[shape.size() - 2] = height, shape.back() = width;
  const auto resized = at::_upsample_bilinear2d_aa(flat, {height, width}, /*align_corners=*/false, none, none);
  return resized.clamp_min(0).reshape(shape);
}

}  // namespace asr
