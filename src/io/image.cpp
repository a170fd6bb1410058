#include "io/image.h"

#include <cstring>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "io/image_codecs.h"

namespace asr {
namespace {

constexpr size_t max_file_bytes = size_t(1) << 29;

bool starts_with(ByteSpan bytes, const char* magic, size_t size) {
  return bytes.size >= size && std::memcmp(bytes.data, magic, size) == 0;
}

// What people most often pass by mistake, so that the message can say it.
const char* foreign_format(ByteSpan bytes) {
  if (starts_with(bytes, "GIF8", 4)) return "a GIF";
  if (starts_with(bytes, "BM", 2)) return "a BMP";
  if (starts_with(bytes, "RIFF", 4) && bytes.size >= 12 && std::memcmp(bytes.data + 8, "WEBP", 4) == 0) return "a WebP";
  if (starts_with(bytes, "II*\0", 4) || starts_with(bytes, "MM\0*", 4)) return "a TIFF";
  return "neither JPEG nor PNG, or damaged in its first bytes";
}

// Where the pixel of the upright image at (y, x) lies in the stored one.
size_t stored_index(int orientation, int64_t y, int64_t x, int64_t height, int64_t width) {
  if (orientation >= 5) std::swap(y, x);  // 5: mirrored at the diagonal
  if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) x = width - 1 - x;
  if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) y = height - 1 - y;
  return static_cast<size_t>(y * width + x) * 3;
}

Image8 upright(DecodedImage decoded) {
  Image8& stored = decoded.image;
  if (decoded.orientation <= 1) return std::move(stored);
  Image8 out{stored.height, stored.width, std::vector<uint8_t>(stored.rgb.size())};
  if (decoded.orientation >= 5) std::swap(out.height, out.width);
  uint8_t* target = out.rgb.data();
  for (int64_t y = 0; y < out.height; ++y)
    for (int64_t x = 0; x < out.width; ++x) {
      std::memcpy(target, &stored.rgb[stored_index(decoded.orientation, y, x, stored.height, stored.width)], 3);
      target += 3;
    }
  return out;
}

}  // namespace

void check_dimensions(int64_t height, int64_t width, const std::string& path, const ImageLimits& limits) {
  check(height > 0 && width > 0, path, ": an image of ", width, "x", height, " pixels; it has no content");
  check(height <= limits.side && width <= limits.side && height * width <= limits.pixels, path, ": an image of ", width,
        "x", height, " pixels is too large (at most ", limits.pixels / 1'000'000, " megapixels and ", limits.side,
        " pixels a side); scale it down first");
}

ImageFormat image_format(ByteSpan bytes, const std::string& path) {
  check(bytes.size > 0, path, ": the file is empty; JPEG or PNG expected");
  if (starts_with(bytes, "\x89PNG\r\n\x1a\n", 8)) return ImageFormat::png;
  if (starts_with(bytes, "\xff\xd8", 2)) return ImageFormat::jpeg;
  fail(path, ": ", foreign_format(bytes), "; convert it to JPEG or PNG");
}

Image8 decode_image(ByteSpan bytes, const std::string& path, const ImageLimits& limits) {
  const bool png = image_format(bytes, path) == ImageFormat::png;
  return upright(png ? decode_png(bytes, path, limits) : decode_jpeg(bytes, path, limits));
}

Image8 read_image(const std::string& path, const ImageLimits& limits) {
  const std::string content = read_file(path, max_file_bytes);
  return decode_image({reinterpret_cast<const uint8_t*>(content.data()), content.size()}, path, limits);
}

}  // namespace asr
