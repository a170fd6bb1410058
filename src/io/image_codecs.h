// What io/image.cpp is made of: one decoder a format, and the orientation that cameras leave in EXIF data.
#pragma once

#include "io/image.h"

namespace asr {

struct DecodedImage {
  Image8 image;         // as stored
  int orientation = 1;  // EXIF: 1 upright, 2..8 mirrored or turned
};

DecodedImage decode_png(ByteSpan bytes, const std::string& path, const ImageLimits& limits);
DecodedImage decode_jpeg(ByteSpan bytes, const std::string& path, const ImageLimits& limits);

// By the first bytes of a file; another format is an error that names it.
enum class ImageFormat { jpeg, png };
ImageFormat image_format(ByteSpan bytes, const std::string& path);

// An error unless the image has pixels and keeps within the limits.
void check_dimensions(int64_t height, int64_t width, const std::string& path, const ImageLimits& limits);

// The orientation in EXIF data (a TIFF header and its first directory). Camera metadata is often broken and never
// worth an image: whatever cannot be read is 1.
int exif_orientation(ByteSpan exif);

}  // namespace asr
