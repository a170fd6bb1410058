// Small image files of every kind, written through libpng and libjpeg, for tests of the decoders.
#pragma once

#include <cstddef>
#include <cstdio>
// jpeglib.h needs both of the above.
#include <jpeglib.h>
#include <png.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "io/image.h"

namespace asr {

inline ByteSpan span_of(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

struct PngSpec {
  int width = 1, height = 1, depth = 8, colour = PNG_COLOR_TYPE_RGB;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  std::vector<uint8_t> palette_alpha = {};
  std::string exif = {};
};

// `rows` as PNG stores them: packed below 8 bits, big endian above.
inline std::string write_png(const PngSpec& spec, std::vector<uint8_t> rows) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp writer, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(writer))->append(reinterpret_cast<char*>(data), size);
      },
      nullptr);
  png_set_IHDR(png, info, spec.width, spec.height, spec.depth, spec.colour,
               spec.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!spec.palette.empty()) png_set_PLTE(png, info, spec.palette.data(), static_cast<int>(spec.palette.size()));
  if (!spec.palette_alpha.empty())
    png_set_tRNS(png, info, spec.palette_alpha.data(), static_cast<int>(spec.palette_alpha.size()), nullptr);
  std::string exif = spec.exif;
  if (!exif.empty())
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()), reinterpret_cast<png_bytep>(exif.data()));
  png_write_info(png, info);
  const size_t row_bytes = rows.size() / static_cast<size_t>(spec.height);
  std::vector<png_bytep> pointers;
  for (int y = 0; y < spec.height; ++y) pointers.push_back(rows.data() + static_cast<size_t>(y) * row_bytes);
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

struct JpegSpec {
  int width = 1, height = 1, channels = 3;
  bool progressive = false;
  std::string exif = {};  // with its "Exif\0\0"
};

inline std::string write_jpeg(const JpegSpec& spec, const std::vector<uint8_t>& pixels) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &data, &size);
  jpeg.image_width = spec.width;
  jpeg.image_height = spec.height;
  jpeg.input_components = spec.channels;
  jpeg.in_color_space = spec.channels == 1 ? JCS_GRAYSCALE : spec.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  for (int c = 0; c < jpeg.num_components; ++c) jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
  if (spec.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  if (!spec.exif.empty())
    jpeg_write_marker(&jpeg, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(spec.exif.data()),
                      static_cast<unsigned>(spec.exif.size()));
  for (int y = 0; y < spec.height; ++y) {
    auto* row = const_cast<uint8_t*>(&pixels[static_cast<size_t>(y * spec.width * spec.channels)]);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string out(reinterpret_cast<char*>(data), size);
  std::free(data);
  return out;
}

// EXIF data whose only entry is the orientation.
inline std::string exif_of(int orientation, bool big_endian) {
  const auto number = [&](uint32_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i)));
    return out;
  };
  return (big_endian ? std::string("MM") : std::string("II")) + number(42, 2) + number(8, 4) + number(1, 2) +
         number(0x0112, 2) + number(3, 2) + number(1, 4) + number(static_cast<uint32_t>(orientation), 2) +
         number(0, 2) + number(0, 4);
}

}  // namespace asr
