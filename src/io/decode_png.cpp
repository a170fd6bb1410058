// PNG through libpng. Its errors leave by longjmp, which skips destructors: every function that calls setjmp holds
// plain values only, and all memory belongs to objects of the frame above it.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "io/image_codecs.h"

namespace asr {
namespace {

struct PngReader {
  ByteSpan bytes;
  size_t position = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = "";

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

extern "C" {

void asr_png_error(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof reader->message, "%s", text);
  png_longjmp(png, 1);
}

void asr_png_warning(png_structp, png_const_charp) {}

void asr_png_read(png_structp png, png_bytep out, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->bytes.size - reader->position) png_error(png, "the file ends early");
  std::memcpy(out, reader->bytes.data + reader->position, count);
  reader->position += count;
}

}  // extern "C"

// Text, profiles and the like are skipped unread: they cannot change a pixel, and compressed ones can be bombs.
void skip_ancillary(png_structp png) {
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, reinterpret_cast<png_const_bytep>("eXIf"), 1);
}

bool read_header(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, asr_png_read);
  png_set_user_limits(reader.png, 0x7fffffff, 0x7fffffff);  // ours come next, with a message that says the limit
  skip_ancillary(reader.png);
  png_read_info(reader.png, reader.info);
  return true;
}

// PIL reads 16-bit grey as integers and clips them at 255 on the way to RGB; of other 16-bit samples it keeps the high
// byte. Strange, but models were trained on what it gives.
bool is_clipped_grey(const PngReader& reader) {
  return png_get_bit_depth(reader.png, reader.info) == 16 &&
         png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_GRAY;
}

bool choose_output(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  if (!is_clipped_grey(reader)) {
    png_set_strip_16(reader.png);
    png_set_palette_to_rgb(reader.png);
    const int colour = png_get_color_type(reader.png, reader.info);
    if (colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(reader.png);
    if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(reader.png);
    png_set_strip_alpha(reader.png);
  }
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(PngReader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, reader.info);
  return true;
}

// A function, because the message exists only once `done` has been computed.
void check_done(bool done, const PngReader& reader, const std::string& path) {
  check(done, path, ": damaged PNG: ", printable(reader.message, 100), "; fetch the file again");
}

std::vector<uint8_t> read_pixels(PngReader& reader, size_t height, size_t row_bytes, const std::string& path) {
  std::vector<uint8_t> pixels(height * row_bytes);
  std::vector<png_bytep> rows(height);
  for (size_t y = 0; y < height; ++y) rows[y] = pixels.data() + y * row_bytes;
  check_done(read_rows(reader, rows.data()), reader, path);
  return pixels;
}

std::vector<uint8_t> clipped_grey(const std::vector<uint8_t>& samples) {
  std::vector<uint8_t> rgb;
  rgb.reserve(samples.size() / 2 * 3);
  for (size_t i = 0; i + 1 < samples.size(); i += 2)
    rgb.insert(rgb.end(), 3, samples[i] ? uint8_t(255) : samples[i + 1]);  // big endian
  return rgb;
}

int orientation_of(const PngReader& reader) {
  png_uint_32 size = 0;
  png_bytep exif = nullptr;
  if (!png_get_eXIf_1(reader.png, reader.info, &size, &exif) || !exif) return 1;
  return exif_orientation({exif, size});
}

}  // namespace

DecodedImage decode_png(ByteSpan bytes, const std::string& path, const ImageLimits& limits) {
  PngReader reader;
  reader.bytes = bytes;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, asr_png_error, asr_png_warning);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  if (!reader.info) fail_system("PNG decoder: out of memory, or headers of another libpng version");
  check_done(read_header(reader), reader, path);
  DecodedImage out;
  out.image.height = png_get_image_height(reader.png, reader.info);
  out.image.width = png_get_image_width(reader.png, reader.info);
  check_dimensions(out.image.height, out.image.width, path, limits);
  const bool clip = is_clipped_grey(reader);
  check_done(choose_output(reader), reader, path);
  const size_t height = static_cast<size_t>(out.image.height), row_bytes = png_get_rowbytes(reader.png, reader.info);
  check(row_bytes == static_cast<size_t>(out.image.width) * (clip ? 2 : 3), path, ": a PNG of an unknown pixel layout");
  out.image.rgb = read_pixels(reader, height, row_bytes, path);
  if (clip) out.image.rgb = clipped_grey(out.image.rgb);
  out.orientation = orientation_of(reader);
  return out;
}

}  // namespace asr
