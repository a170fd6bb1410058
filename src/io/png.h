// Writing PNG images, through libpng.
#pragma once

#include <cstdint>
#include <string>

namespace asr {

// 8-bit RGB rows without gaps, [height][width][3], as the bytes of a PNG file.
std::string encode_png(const uint8_t* rgb, int width, int height);

}  // namespace asr
