// Photographs from files: JPEG and PNG, told apart by content, as the 8-bit RGB that PIL's exif_transpose and
// convert("RGB") give: orientation applied, alpha dropped, palettes and greys expanded. Files are untrusted: damage,
// truncation and huge dimensions are errors of one line that names the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/mapped_file.h"

namespace asr {

struct Image8 {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // [height][width][3], no gaps
};

// What a decoder may be asked to allocate; a few hundred bytes of file can claim any size.
struct ImageLimits {
  int64_t pixels = 100'000'000;
  int64_t side = 100'000;
};

// `path` only goes into messages.
Image8 decode_image(ByteSpan bytes, const std::string& path, const ImageLimits& limits = {});
Image8 read_image(const std::string& path, const ImageLimits& limits = {});

// "" where the file begins as a JPEG or PNG of bearable size, else why not; nothing is decoded, so that damage
// behind the header is not seen.
std::string image_header_problem(const std::string& path, const ImageLimits& limits = {});

}  // namespace asr
