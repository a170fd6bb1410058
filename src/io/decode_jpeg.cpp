// JPEG through libjpeg. Its errors leave by longjmp, which skips destructors: every function that calls setjmp holds
// plain values only, and all memory belongs to objects of the frame above it.
#include <cstddef>
#include <cstdio>
// jpeglib.h needs both of the above, and the message codes of jerror.h depend on its settings.
#include <jpeglib.h>
// Another block, so that sorting leaves them in order.
#include <jerror.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "io/image_codecs.h"

namespace asr {
namespace {

// Each scan of a progressive file walks the whole image, so a small file of many scans could run for hours. Encoders
// write about ten.
constexpr int max_scans = 100;

struct JpegReader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump;
  bool ended_early = false;
  char message[JMSG_LENGTH_MAX] = "";

  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }  // harmless on a struct of zeros
};

JpegReader& reader_of(j_common_ptr jpeg) {
  return *static_cast<JpegReader*>(jpeg->client_data);
}

extern "C" {

void asr_jpeg_error(j_common_ptr jpeg) {
  JpegReader& reader = reader_of(jpeg);
  jpeg->err->format_message(jpeg, reader.message);
  std::longjmp(reader.jump, 1);
}

// A scan of a progressive file that only refines: cut short, it costs detail, not a part of the picture.
bool refines(j_common_ptr jpeg) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(jpeg);
  return decompress->progressive_mode && (decompress->Ss > 0 || decompress->Ah > 0);
}

// libjpeg goes on after damage and fills the rest with grey. What means missing or wrong pixels is an error here;
// stray bytes between markers and the like, common in photographs from the web, are not.
void asr_jpeg_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_JPEG_EOF:
      reader_of(jpeg).ended_early = true;  // harmless where only the end marker is missing: see start()
      return;
    case JWRN_HIT_MARKER:
      if (refines(jpeg)) return;
      [[fallthrough]];
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      jpeg->err->error_exit(jpeg);
      return;
    default:
      return;
  }
}

void asr_jpeg_progress(j_common_ptr jpeg) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (decompress->input_scan_number <= max_scans) return;
  JpegReader& reader = reader_of(jpeg);
  std::snprintf(reader.message, sizeof reader.message, "more than %d scans", max_scans);
  std::longjmp(reader.jump, 1);
}

void asr_jpeg_silent(j_common_ptr) {}

}  // extern "C"

bool read_header(JpegReader& reader, ByteSpan bytes) {
  reader.jpeg.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = asr_jpeg_error;
  reader.errors.emit_message = asr_jpeg_message;
  reader.errors.output_message = asr_jpeg_silent;
  reader.progress.progress_monitor = asr_jpeg_progress;
  reader.jpeg.client_data = &reader;
  if (setjmp(reader.jump)) return false;
  jpeg_create_decompress(&reader.jpeg);
  reader.jpeg.progress = &reader.progress;
  jpeg_mem_src(&reader.jpeg, bytes.data, static_cast<unsigned long>(bytes.size));
  jpeg_save_markers(&reader.jpeg, JPEG_APP0 + 1, 0xffff);  // EXIF
  jpeg_read_header(&reader.jpeg, TRUE);
  return true;
}

// A file of several scans is read to its end here; one that stops before its end marker lacks scans.
bool start(JpegReader& reader, bool four_channels) {
  if (setjmp(reader.jump)) return false;
  reader.jpeg.out_color_space = four_channels ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&reader.jpeg);
  if (!reader.ended_early || !jpeg_has_multiple_scans(&reader.jpeg)) return true;
  std::snprintf(reader.message, sizeof reader.message, "the file ends early");
  return false;
}

bool read_row(JpegReader& reader, uint8_t* row) {
  if (setjmp(reader.jump)) return false;
  JSAMPROW rows[1] = {row};
  jpeg_read_scanlines(&reader.jpeg, rows, 1);
  return true;
}

// (a * b) / 255, rounded, as PIL computes it.
int scaled(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Four-channel files hold inverted inks (Adobe's habit, which PIL takes for granted); the formula is PIL's too.
void inks_to_rgb(const uint8_t* inks, int64_t width, uint8_t* rgb) {
  for (int64_t x = 0; x < width; ++x)
    for (int c = 0; c < 3; ++c) {
      const int light = inks[4 * x + 3];
      rgb[3 * x + c] = static_cast<uint8_t>(std::max(0, light - scaled(255 - inks[4 * x + c], light)));
    }
}

int orientation_of(const JpegReader& reader) {
  for (auto marker = reader.jpeg.marker_list; marker; marker = marker->next)
    if (marker->marker == JPEG_APP0 + 1 && marker->data_length >= 6 && !std::memcmp(marker->data, "Exif\0\0", 6))
      return exif_orientation({marker->data, marker->data_length});
  return 1;
}

}  // namespace

DecodedImage decode_jpeg(ByteSpan bytes, const std::string& path, const ImageLimits& limits) {
  JpegReader reader;
  const auto must = [&](bool ok) {
    check(ok, path, ": damaged JPEG: ", printable(reader.message, 120), "; fetch the file again");
  };
  must(read_header(reader, bytes));
  DecodedImage out;
  out.image.height = reader.jpeg.image_height;
  out.image.width = reader.jpeg.image_width;
  check_dimensions(out.image.height, out.image.width, path, limits);
  const int channels = reader.jpeg.num_components;
  check(channels == 1 || channels == 3 || channels == 4, path, ": a JPEG of ", channels,
        " channels; convert it to RGB");
  out.orientation = orientation_of(reader);
  must(start(reader, channels == 4));
  const size_t row_bytes = static_cast<size_t>(out.image.width) * 3;
  out.image.rgb.resize(static_cast<size_t>(out.image.height) * row_bytes);
  std::vector<uint8_t> inks(channels == 4 ? static_cast<size_t>(out.image.width) * 4 : 0);
  for (int64_t y = 0; y < out.image.height; ++y) {
    uint8_t* row = out.image.rgb.data() + static_cast<size_t>(y) * row_bytes;
    must(read_row(reader, channels == 4 ? inks.data() : row));
    if (channels == 4) inks_to_rgb(inks.data(), out.image.width, row);
  }
  return out;
}

}  // namespace asr
