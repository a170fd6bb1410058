// CLIP, and with it LLaVA-1.5: the shorter side to the model's size, then the centre. With `do_pad` the image is first
// made square on a ground of the mean colour, as LLaVA's own recipe does, so that nothing is cut off.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "io/processors/steps.h"

namespace asr {
namespace {

// The image on a canvas; what lies outside it is cut off.
Image8 placed(const Image8& image, const ImageSize& canvas, int64_t top, int64_t left,
              const std::array<uint8_t, 3>& ground) {
  Image8 out{canvas.height, canvas.width, std::vector<uint8_t>(static_cast<size_t>(canvas.height * canvas.width) * 3)};
  for (size_t i = 0; i < out.rgb.size(); ++i) out.rgb[i] = ground[i % 3];
  const int64_t first = std::max<int64_t>(0, -left), last = std::min(image.width, canvas.width - left);
  if (first >= last) return out;
  for (int64_t y = std::max<int64_t>(0, -top); y < std::min(image.height, canvas.height - top); ++y)
    std::memcpy(&out.rgb[static_cast<size_t>((y + top) * canvas.width + first + left) * 3],
                &image.rgb[static_cast<size_t>(y * image.width + first) * 3], static_cast<size_t>(last - first) * 3);
  return out;
}

class ClipProcessor : public ImageProcessor {
 public:
  explicit ClipProcessor(const ProcessorConfig& config)
      : pad_(config.flag("do_pad", false)),
        resize_(config.flag("do_resize", true)),
        crop_(config.flag("do_center_crop", true)),
        crop_size_(square_size(config, "crop_size", 224)),
        filter_(config.filter()),
        table_(config) {
    read_size(config);
    const auto mean = config.triple("image_mean", clip_mean);
    for (size_t c = 0; c < 3; ++c) ground_[c] = static_cast<uint8_t>(std::clamp(mean[c] * 255, 0.0, 255.0));
  }

  void append(const Image8& image, const std::string& name, ProcessedImages& out) const override {
    const int64_t side = std::max(image.height, image.width);
    if (!pad_ || image.height == image.width) return append_square(image, name, out);
    check(side * side <= ImageLimits().pixels, name, ": ", image.width, "x", image.height,
          " pixels are too many once padded to a square; scale the image down first");
    append_square(placed(image, {side, side}, (side - image.height) / 2, (side - image.width) / 2, ground_), name, out);
  }

 private:
  void read_size(const ProcessorConfig& config) {
    const auto* size = config.find("size");
    if (size && size->is_object() && size->contains("height")) {
      exact_ = square_size(config, "size", 224);
      return;
    }
    const bool object = size && size->is_object();
    shortest_ = object ? config.member("size", "shortest_edge", max_model_side)
                       : config.integer("size", 224, 1, max_model_side);
    check(shortest_ > 0, config.path, ": 'size' must hold \"shortest_edge\", or \"height\" and \"width\"");
    check(!object || !size->contains("longest_edge"), config.path,
          ": 'size' with \"longest_edge\" is not known for CLIP; use \"shortest_edge\" alone");
  }

  ImageSize resized(const Image8& image) const {
    if (!resize_) return {image.height, image.width};
    if (exact_.height > 0) return exact_;
    const bool portrait = image.width <= image.height;
    const int64_t low = portrait ? image.width : image.height, high = portrait ? image.height : image.width;
    const int64_t longest = shortest_ * high / low;
    return portrait ? ImageSize{longest, shortest_} : ImageSize{shortest_, longest};
  }

  // Resizing and the centre crop in one, so that only pixels that stay are computed.
  void append_square(const Image8& image, const std::string& name, ProcessedImages& out) const {
    const ImageSize full = resized(image);
    ImageWindow window{0, 0, full.height, full.width};
    if (crop_) {
      window.height = std::min(full.height, crop_size_.height);
      window.width = std::min(full.width, crop_size_.width);
      window.top = (full.height - window.height) / 2;
      window.left = (full.width - window.width) / 2;
    }
    Image8 part = resize(image, full.height, full.width, filter_, window);
    if (crop_ && (part.height < crop_size_.height || part.width < crop_size_.width))
      part = placed(part, crop_size_, (crop_size_.height - part.height) / 2, (crop_size_.width - part.width) / 2, {});
    append_planes(part, table_, name, out);
  }

  bool pad_, resize_, crop_;
  int64_t shortest_ = 0;
  ImageSize exact_, crop_size_;
  ResampleFilter filter_;
  PixelTable table_;
  std::array<uint8_t, 3> ground_{};
};

}  // namespace

std::unique_ptr<ImageProcessor> make_clip_processor(const ProcessorConfig& config) {
  return std::make_unique<ClipProcessor>(config);
}

}  // namespace asr
