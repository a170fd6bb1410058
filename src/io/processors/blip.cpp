// BLIP and InstructBLIP: the whole image, stretched to the model's size.
#include "io/processors/steps.h"

namespace asr {
namespace {

class BlipProcessor : public ImageProcessor {
 public:
  explicit BlipProcessor(const ProcessorConfig& config)
      : resize_(config.flag("do_resize", true)),
        size_(square_size(config, "size", 384)),
        filter_(config.filter()),
        table_(config) {}

  void append(const Image8& image, const std::string& name, ProcessedImages& out) const override {
    append_planes(resize_ ? resize(image, size_.height, size_.width, filter_) : image, table_, name, out);
  }

 private:
  bool resize_;
  ImageSize size_;
  ResampleFilter filter_;
  PixelTable table_;
};

}  // namespace

std::unique_ptr<ImageProcessor> make_blip_processor(const ProcessorConfig& config) {
  return std::make_unique<BlipProcessor>(config);
}

}  // namespace asr
