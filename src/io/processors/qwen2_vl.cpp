// Qwen2-VL and Qwen2.5-VL: any aspect ratio, both sides multiples of patch x merge, the area within bounds. Patches are
// rows of [3, temporal, patch, patch] values, those of one merge block next to each other; a still image fills every
// frame of the temporal patch.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/processors/steps.h"

namespace asr {
namespace {

constexpr int64_t max_ratio = 200;  // the family's own rule

class Qwen2VlProcessor : public ImageProcessor {
 public:
  explicit Qwen2VlProcessor(const ProcessorConfig& config)
      : resize_(config.flag("do_resize", true)),
        patch_(config.integer("patch_size", 14, 1, 256)),
        frames_(config.integer("temporal_patch_size", 2, 1, 16)),
        merge_(config.integer("merge_size", 2, 1, 16)),
        filter_(config.filter()),
        table_(config) {
    const int64_t high = ImageLimits().pixels;
    const int64_t size_low = config.member("size", "shortest_edge", high),
                  size_high = config.member("size", "longest_edge", high);  // areas, whatever their names say
    low_ = config.integer("min_pixels", size_low > 0 ? size_low : 56 * 56, 1, high);
    high_ = config.integer("max_pixels", size_high > 0 ? size_high : 28 * 28 * 1280, 1, high);
    check(low_ <= high_, config.path, ": at least ", low_, " and at most ", high_, " pixels: nothing fits both");
  }

  void append(const Image8& image, const std::string& name, ProcessedImages& out) const override {
    const int64_t factor = patch_ * merge_;
    const ImageSize size = resize_ ? smart_size(image, name) : ImageSize{image.height, image.width};
    check(size.height % factor == 0 && size.width % factor == 0, name, ": ", size.width, "x", size.height,
          " pixels are no multiples of ", factor, "; set 'do_resize' to true");
    append_patches(resize(image, size.height, size.width, filter_), out);
    out.layout_name = "image_grid_thw";
    out.layout.insert(out.layout.end(), {1, size.height / patch_, size.width / patch_});
    out.layout_shape = {static_cast<int64_t>(out.layout.size()) / 3, 3};
  }

 private:
  ImageSize smart_size(const Image8& image, const std::string& name) const {
    check(std::max(image.height, image.width) <= max_ratio * std::min(image.height, image.width), name, ": ",
          image.width, "x", image.height, " pixels: one side is more than ", max_ratio,
          " times the other, which this model does not take; crop the image");
    const auto factor = static_cast<double>(patch_ * merge_), height = static_cast<double>(image.height),
               width = static_cast<double>(image.width), low = static_cast<double>(low_),
               high = static_cast<double>(high_);
    // nearbyint rounds halves to even, as Python does.
    double rows = std::nearbyint(height / factor) * factor, columns = std::nearbyint(width / factor) * factor;
    if (rows * columns > high) {
      const double beta = std::sqrt(height * width / high);
      rows = std::max(factor, std::floor(height / beta / factor) * factor);
      columns = std::max(factor, std::floor(width / beta / factor) * factor);
    } else if (rows * columns < low) {
      const double beta = std::sqrt(low / (height * width));
      rows = std::ceil(height * beta / factor) * factor;
      columns = std::ceil(width * beta / factor) * factor;
    }
    return {static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
  }

  void append_patches(const Image8& image, ProcessedImages& out) const {
    const int64_t rows = image.height / patch_, columns = image.width / patch_;
    const int64_t values = 3 * frames_ * patch_ * patch_;
    if (out.shape.empty()) out.shape = {0, values};
    out.shape[0] += rows * columns;
    out.pixel_values.reserve(out.pixel_values.size() + static_cast<size_t>(rows * columns * values));
    for (int64_t row = 0; row < rows; row += merge_)
      for (int64_t column = 0; column < columns; column += merge_)
        for (int64_t i = 0; i < merge_ * merge_; ++i)
          append_patch(image, (row + i / merge_) * patch_, (column + i % merge_) * patch_, out.pixel_values);
  }

  void append_patch(const Image8& image, int64_t top, int64_t left, std::vector<float>& out) const {
    for (int c = 0; c < 3; ++c)
      for (int64_t frame = 0; frame < frames_; ++frame)
        for (int64_t y = top; y < top + patch_; ++y) {
          const uint8_t* source = &image.rgb[static_cast<size_t>(y * image.width + left) * 3];
          for (int64_t x = 0; x < patch_; ++x) out.push_back(table_.of(c, source[3 * x + c]));
        }
  }

  bool resize_;
  int64_t patch_, frames_, merge_, low_ = 0, high_ = 0;
  ResampleFilter filter_;
  PixelTable table_;
};

}  // namespace

std::unique_ptr<ImageProcessor> make_qwen2_vl_processor(const ProcessorConfig& config) {
  return std::make_unique<Qwen2VlProcessor>(config);
}

}  // namespace asr
