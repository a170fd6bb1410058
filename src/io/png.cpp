#include "io/png.h"

#include <png.h>

#include <vector>

#include "base/error.h"

namespace asr {

std::string encode_png(const uint8_t* rgb, int width, int height) {
  check(width > 0 && height > 0 && width <= 65535 && height <= 65535, "image of ", width, "x", height,
        " cannot be written");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(size, '\0');
  if (!png_image_write_to_memory(&image, out.data(), &size, 0, rgb, 0, nullptr))
    fail_system("PNG encoder: ", image.message);
  out.resize(size);
  return out;
}

}  // namespace asr
