// A model family's own way from images to the numbers its vision tower reads, as the model folder configures it: sizes,
// crops, tiles, patches and normalisation of Hugging Face's image processors. One file a family in io/processors/.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/image.h"

namespace asr {

// Of one or more images, in their order.
struct ProcessedImages {
  std::vector<float> pixel_values;
  std::vector<int64_t> shape;   // of pixel_values: [images or tiles, 3, height, width] or [patches, values a patch]
  std::string layout_name;      // "image_grid_thw", "num_patches", or empty where every image is one entry
  std::vector<int64_t> layout;  // one row an image
  std::vector<int64_t> layout_shape;  // [images, 3] or [images]
  std::vector<int64_t> tiles;         // rows and columns of each image's tiles, where it is cut into tiles
};

class ImageProcessor {
 public:
  virtual ~ImageProcessor() = default;
  // Adds one image to `out`, which starts empty and stays with one processor; `name` goes into messages.
  virtual void append(const Image8& image, const std::string& name, ProcessedImages& out) const = 0;
};

// From processor_config.json (its "image_processor") or preprocessor_config.json in a model folder; InternVL in its
// authors' layout from config.json.
std::unique_ptr<ImageProcessor> load_image_processor(const std::string& model_folder);

// From the configuration itself; `path` names it in messages.
std::unique_ptr<ImageProcessor> make_image_processor(const nlohmann::json& config, const std::string& path);

}  // namespace asr
