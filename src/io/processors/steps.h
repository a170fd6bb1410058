// What the families' processors share: reading their configuration, and the steps after resizing.
#pragma once

#include <array>

#include "io/image_processor.h"
#include "io/resample.h"

namespace asr {

// A configuration file with checked access; a wrong type or an impossible value is an error naming file and key.
struct ProcessorConfig {
  const nlohmann::json& json;
  std::string path;

  const nlohmann::json* find(const std::string& key) const;  // null where absent or null
  bool flag(const std::string& key, bool otherwise) const;
  int64_t integer(const std::string& key, int64_t otherwise, int64_t low, int64_t high) const;
  double number(const std::string& key, double otherwise) const;
  std::array<double, 3> triple(const std::string& key, const std::array<double, 3>& otherwise) const;
  ResampleFilter filter() const;  // "resample", PIL's numbers

  // A member of an object such as "size"; 0 where the object or the member is absent.
  int64_t member(const std::string& key, const std::string& name, int64_t high) const;
};

constexpr int64_t max_model_side = 16384;  // pixels; far above any vision tower
constexpr std::array<double, 3> clip_mean{0.48145466, 0.4578275, 0.40821073};
constexpr std::array<double, 3> clip_std{0.26862954, 0.26130258, 0.27577711};

struct ImageSize {
  int64_t height = 0, width = 0;
};

// "size" as {"height", "width"}, or one number for a square.
ImageSize square_size(const ProcessorConfig& config, const std::string& key, int64_t otherwise);

// Rescale and normalise: one value for each channel and byte.
struct PixelTable {
  explicit PixelTable(const ProcessorConfig& config);
  float of(int channel, uint8_t byte) const { return values[channel][byte]; }
  std::array<std::array<float, 256>, 3> values;
};

// Appends the image as [3, height, width] and counts it in shape[0]. Images of another size than the first cannot
// stand in one tensor: an error.
void append_planes(const Image8& image, const PixelTable& table, const std::string& name, ProcessedImages& out);

// The settings of InternVL's processor from a config.json in its authors' layout (model_type internvl_chat).
nlohmann::json internvl_chat_settings(const nlohmann::json& model, const std::string& path);

#define PROCESSOR(family) std::unique_ptr<ImageProcessor> make_##family##_processor(const ProcessorConfig& config);
#include "io/processors/processors.def"
#undef PROCESSOR

}  // namespace asr
