#include "io/processors/steps.h"

#include <cmath>

#include "base/error.h"

namespace asr {

const nlohmann::json* ProcessorConfig::find(const std::string& key) const {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

bool ProcessorConfig::flag(const std::string& key, bool otherwise) const {
  const auto* value = find(key);
  check(!value || value->is_boolean(), path, ": '", key, "' must be true or false");
  return value ? value->get<bool>() : otherwise;
}

int64_t ProcessorConfig::integer(const std::string& key, int64_t otherwise, int64_t low, int64_t high) const {
  const auto* value = find(key);
  if (!value) return otherwise;
  // Read as a double first: a number beyond 64 bits must not wrap into the range.
  const double wide = value->is_number() ? value->get<double>() : NAN;
  check(wide >= static_cast<double>(low) && wide <= static_cast<double>(high) && wide == std::floor(wide), path, ": '",
        key, "' must be a whole number from ", low, " to ", high);
  return static_cast<int64_t>(wide);
}

double ProcessorConfig::number(const std::string& key, double otherwise) const {
  const auto* value = find(key);
  check(!value || value->is_number(), path, ": '", key, "' must be a number");
  return value ? value->get<double>() : otherwise;
}

std::array<double, 3> ProcessorConfig::triple(const std::string& key, const std::array<double, 3>& otherwise) const {
  const auto* value = find(key);
  if (!value) return otherwise;
  std::array<double, 3> out{};
  check(value->is_array() && value->size() == 3, path, ": '", key, "' must be a list of three numbers");
  for (size_t i = 0; i < 3; ++i) {
    check((*value)[i].is_number(), path, ": '", key, "' must be a list of three numbers");
    out[i] = (*value)[i].get<double>();
  }
  return out;
}

ResampleFilter ProcessorConfig::filter() const {
  const int64_t number = integer("resample", 3, 0, 5);
  check(number >= 1 && number <= 3, path, ": 'resample' ", number,
        " is not supported; use 1 (Lanczos), 2 (bilinear) or 3 (bicubic)");
  return number == 1 ? ResampleFilter::Lanczos : number == 2 ? ResampleFilter::Bilinear : ResampleFilter::Bicubic;
}

int64_t ProcessorConfig::member(const std::string& key, const std::string& name, int64_t high) const {
  const auto* value = find(key);
  if (!value || !value->is_object()) return 0;
  return ProcessorConfig{*value, path + ": " + key}.integer(name, 0, 1, high);
}

ImageSize square_size(const ProcessorConfig& config, const std::string& key, int64_t otherwise) {
  const auto* value = config.find(key);
  if (!value) return {otherwise, otherwise};
  if (!value->is_object()) {
    const int64_t side = config.integer(key, otherwise, 1, max_model_side);
    return {side, side};
  }
  const ImageSize size{config.member(key, "height", max_model_side), config.member(key, "width", max_model_side)};
  check(size.height > 0 && size.width > 0, config.path, ": '", key, "' must hold \"height\" and \"width\"");
  return size;
}

// In float32 and in this order, because transformers folds the rescaling into mean and deviation.
PixelTable::PixelTable(const ProcessorConfig& config) {
  const auto mean = config.triple("image_mean", clip_mean), deviation = config.triple("image_std", clip_std);
  const double factor = config.flag("do_rescale", true) ? config.number("rescale_factor", 1.0 / 255) : 1.0;
  const bool normalize = config.flag("do_normalize", true);
  check(factor > 0 && std::isfinite(factor), config.path, ": 'rescale_factor' must be above 0");
  for (size_t c = 0; c < 3; ++c) {
    check(!normalize || deviation[c] > 0, config.path, ": 'image_std' must be above 0");
    const auto shift = static_cast<float>(mean[c] / factor), scale = static_cast<float>(deviation[c] / factor);
    for (int byte = 0; byte < 256; ++byte) {
      const auto value = static_cast<float>(byte);
      values[c][byte] = normalize ? (value - shift) / scale : value * static_cast<float>(factor);
      check(std::isfinite(values[c][byte]), config.path,
            ": 'rescale_factor', 'image_mean' and 'image_std' make pixels that are no finite numbers");
    }
  }
}

void append_planes(const Image8& image, const PixelTable& table, const std::string& name, ProcessedImages& out) {
  if (out.shape.empty()) out.shape = {0, 3, image.height, image.width};
  check(out.shape[2] == image.height && out.shape[3] == image.width, name, ": processed to ", image.width, "x",
        image.height, " pixels, but the images before it to ", out.shape[3], "x", out.shape[2],
        "; process images of different size one by one, or set 'do_center_crop'");
  ++out.shape[0];
  const size_t pixels = static_cast<size_t>(image.height * image.width), begin = out.pixel_values.size();
  out.pixel_values.resize(begin + 3 * pixels);
  for (int c = 0; c < 3; ++c) {
    float* plane = out.pixel_values.data() + begin + static_cast<size_t>(c) * pixels;
    for (size_t i = 0; i < pixels; ++i) plane[i] = table.of(c, image.rgb[3 * i + static_cast<size_t>(c)]);
  }
}

}  // namespace asr
