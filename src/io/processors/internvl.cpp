// InternVL: the image stretched to the grid of square tiles whose shape is nearest to its own, one entry a tile in
// reading order, and, where there is more than one, a thumbnail of the whole image after them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "io/processors/steps.h"

namespace asr {
namespace {

struct TileGrid {
  int64_t columns = 1, rows = 1;
};

// By number of tiles, then by columns: on ties below, the order decides.
std::vector<TileGrid> tile_grids(int64_t low, int64_t high) {
  std::vector<TileGrid> out;
  for (int64_t tiles = low; tiles <= high; ++tiles)
    for (int64_t columns = 1; columns <= tiles; ++columns)
      if (tiles % columns == 0) out.push_back({columns, tiles / columns});
  return out;
}

class InternvlProcessor : public ImageProcessor {
 public:
  explicit InternvlProcessor(const ProcessorConfig& config)
      : tile_(square_size(config, "size", 384)),
        tiling_(config.flag("crop_to_patches", false)),
        resize_(config.flag("do_resize", true)),
        thumbnail_(config.flag("use_thumbnail", true)),
        filter_(config.filter()),
        table_(config) {
    // The family's processor turns tiling on whatever its image processor's file says.
    const auto* owner = config.find("processor_class");
    if (owner && *owner == "InternVLProcessor") tiling_ = true;
    const int64_t high = config.integer("max_patches", 12, 1, 256);
    grids_ = tile_grids(config.integer("min_patches", 1, 1, high), high);
  }

  void append(const Image8& image, const std::string& name, ProcessedImages& out) const override {
    int64_t tiles = 1;
    if (tiling_) {
      tiles = append_tiles(image, name, out);
    } else {
      out.tiles.insert(out.tiles.end(), {1, 1});
      append_planes(resize_ ? whole(image) : image, table_, name, out);
    }
    out.layout_name = "num_patches";
    out.layout.push_back(tiles);
    out.layout_shape = {static_cast<int64_t>(out.layout.size())};
  }

 private:
  Image8 whole(const Image8& image) const { return resize(image, tile_.height, tile_.width, filter_); }

  // Of two grids equally near, the larger is taken only while the image fills more than half of it.
  TileGrid best_grid(const Image8& image) const {
    const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
    const double area = static_cast<double>(image.width) * static_cast<double>(image.height);
    double best = INFINITY;
    TileGrid out;
    for (const TileGrid& grid : grids_) {
      const double difference = std::abs(ratio - static_cast<double>(grid.columns) / static_cast<double>(grid.rows));
      const auto grid_area = static_cast<double>(tile_.height * tile_.width * grid.columns * grid.rows);
      if (difference < best || (difference == best && area > 0.5 * grid_area)) out = grid;
      best = std::min(best, difference);
    }
    return out;
  }

  int64_t append_tiles(const Image8& image, const std::string& name, ProcessedImages& out) const {
    const TileGrid grid = best_grid(image);
    out.tiles.insert(out.tiles.end(), {grid.rows, grid.columns});
    const Image8 canvas = resize(image, tile_.height * grid.rows, tile_.width * grid.columns, filter_);
    Image8 tile{tile_.height, tile_.width, std::vector<uint8_t>(static_cast<size_t>(tile_.height * tile_.width) * 3)};
    const size_t row_bytes = static_cast<size_t>(tile_.width) * 3;
    for (int64_t i = 0; i < grid.rows * grid.columns; ++i) {
      const int64_t top = i / grid.columns * tile_.height, left = i % grid.columns * tile_.width;
      for (int64_t y = 0; y < tile_.height; ++y)
        std::memcpy(&tile.rgb[static_cast<size_t>(y) * row_bytes],
                    &canvas.rgb[static_cast<size_t>((top + y) * canvas.width + left) * 3], row_bytes);
      append_planes(tile, table_, name, out);
    }
    if (grid.rows * grid.columns == 1 || !thumbnail_) return grid.rows * grid.columns;
    append_planes(whole(image), table_, name, out);
    return grid.rows * grid.columns + 1;
  }

  ImageSize tile_;
  bool tiling_, resize_, thumbnail_;
  std::vector<TileGrid> grids_;
  ResampleFilter filter_;
  PixelTable table_;
};

}  // namespace

// The authors' folders name a CLIP processor, which nothing of theirs uses: size and tiles stand in config.json, the
// rest is fixed in their code. Their choice of a grid is the same.
nlohmann::json internvl_chat_settings(const nlohmann::json& model, const std::string& path) {
  const ProcessorConfig config{model, path};
  const auto* tower = config.find("vision_config");
  const nlohmann::json nothing = nlohmann::json::object();
  const ProcessorConfig vision{tower && tower->is_object() ? *tower : nothing, path};
  const int64_t side =
      config.integer("force_image_size", vision.integer("image_size", 224, 1, max_model_side), 1, max_model_side);
  check(!config.flag("pad2square", false), path, ": 'pad2square' is true, which is not supported");
  const int64_t high = config.integer("max_dynamic_patch", 6, 1, 256);
  return {{"image_processor_type", "GotOcr2ImageProcessor"},
          {"size", {{"height", side}, {"width", side}}},
          {"crop_to_patches", config.flag("dynamic_image_size", false)},
          {"use_thumbnail", config.flag("use_thumbnail", false)},
          {"min_patches", config.integer("min_dynamic_patch", 1, 1, high)},
          {"max_patches", high},
          {"resample", 3},
          {"image_mean", {0.485, 0.456, 0.406}},
          {"image_std", {0.229, 0.224, 0.225}}};
}

std::unique_ptr<ImageProcessor> make_internvl_processor(const ProcessorConfig& config) {
  return std::make_unique<InternvlProcessor>(config);
}

}  // namespace asr
