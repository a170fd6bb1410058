// Resizing 8-bit images as torchvision's antialiased kernel and PIL do: a separable filter, widened where the image
// shrinks, first along rows, then along columns, with fixed-point weights of 16 bits and 8-bit values in between.
#pragma once

#include "io/image.h"

namespace asr {

enum class ResampleFilter { Lanczos, Bilinear, Bicubic };  // bicubic with a = -0.5

// A part of the resized image; only its pixels are computed. A strip of 20000x1 resized to a short edge of 336 has two
// thousand million pixels, of which a centre crop needs 336x336.
struct ImageWindow {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

Image8 resize(const Image8& image, int64_t height, int64_t width, ResampleFilter filter);
Image8 resize(const Image8& image, int64_t height, int64_t width, ResampleFilter filter, const ImageWindow& window);

// The image itself, or smaller, so that its longer side is at most `side`.
Image8 at_most(const Image8& image, int64_t side);

}  // namespace asr
