#include "backbones/visual_grid.h"

#include "base/error.h"

namespace asr {
namespace {

bool plain(const SampleCells& sample, int64_t columns, int64_t height, int64_t width) {
  return sample.size() == 1 && sample[0].first == 0 && sample[0].count == columns && sample[0].cell.empty() &&
         sample[0].height == height && sample[0].width == width;
}

// x [..., tokens] -> [..., height, width] of the picture's own grid.
torch::Tensor own_grid(const torch::Tensor& x, const ImageCells& image) {
  auto shape = x.sizes().vec();
  shape.back() = image.height * image.width;
  auto cells = x;
  if (!image.cell.empty()) {
    check(static_cast<int64_t>(image.cell.size()) == image.count, "a picture's cells do not match its tokens");
    std::vector<int64_t> tokens, places;
    for (size_t i = 0; i < image.cell.size(); ++i)
      if (image.cell[i] >= 0) {
        tokens.push_back(static_cast<int64_t>(i));
        places.push_back(image.cell[i]);
      }
    const auto options = at::TensorOptions().dtype(at::kLong).device(x.device());
    const auto from = torch::tensor(tokens, at::kLong).to(options), to = torch::tensor(places, at::kLong).to(options);
    const auto ones = torch::ones({to.numel()}, x.options().requires_grad(false));
    const auto counts = torch::zeros({shape.back()}, ones.options()).index_add(0, to, ones).clamp_min(1);
    cells = torch::zeros(shape, ones.options()).index_add(-1, to, x.index_select(-1, from)) / counts;
  } else {
    check(image.height * image.width == image.count, "a picture has ", image.count, " visual tokens, but its grid is ",
          image.height, "x", image.width);
  }
  shape.back() = image.height;
  shape.push_back(image.width);
  return cells.reshape(shape);
}

// The interpolation of one side as a matrix [to, from]: what the library makes of the unit vectors.
torch::Tensor interpolation(int64_t from, int64_t to, const at::TensorOptions& options) {
  const auto unit = torch::eye(from, at::kDouble).view({1, 1, from, from});
  return at::_upsample_bilinear2d_aa(unit, {to, from}, /*align_corners=*/false).view({to, from}).to(options);
}

// By two products: on a GPU the gradient of the library's interpolation adds in an order that changes.
torch::Tensor resized(const torch::Tensor& map, int64_t height, int64_t width) {
  const auto options = map.options().requires_grad(false);
  auto out = map;
  if (map.size(-2) != height) out = interpolation(map.size(-2), height, options).matmul(out);
  if (map.size(-1) != width) out = out.matmul(interpolation(map.size(-1), width, options).t());
  return out.clamp_min(0);
}

}  // namespace

torch::Tensor grid_maps(const torch::Tensor& rows, const std::vector<SampleCells>& samples, int64_t height,
                        int64_t width) {
  const int64_t batch = rows.size(0), columns = rows.size(-1);
  check(batch == static_cast<int64_t>(samples.size()), "attention of ", batch, " samples, grids of ", samples.size());
  bool same = true;
  for (const auto& sample : samples) same = same && plain(sample, columns, height, width);
  if (same) return rows.reshape({batch, rows.size(1), rows.size(2), rows.size(3), height, width});
  std::vector<torch::Tensor> out;
  for (int64_t b = 0; b < batch; ++b) {
    const auto& sample = samples[static_cast<size_t>(b)];
    check(!sample.empty(), "sample ", b, " of the batch has no picture to attend to");
    torch::Tensor sum;
    for (const auto& image : sample) {
      const auto map = resized(own_grid(rows[b].narrow(-1, image.first, image.count), image), height, width);
      sum = sum.defined() ? sum + map : map;
    }
    out.push_back(sample.size() == 1 ? sum : sum / static_cast<double>(sample.size()));
  }
  return at::stack(out);
}

}  // namespace asr
