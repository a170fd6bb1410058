// The paper's training augmentation: a horizontal flip and a crop that keeps at least 80 % of each side, left out where
// a question's answer would change with the picture. Which one a sample gets depends on its key alone.
#pragma once

#include <cstdint>
#include <string>

#include "io/image.h"

namespace asr {

struct AllowedAugmentation {
  bool flip = true, crop = true;
};

// By the words of question and answer: sides and text forbid a flip; counts, places, existence, boxes and what stands
// at the edge forbid a crop.
AllowedAugmentation allowed_augmentation(const std::string& question, const std::string& answer);

Image8 flipped(const Image8& image);
Image8 cropped(const Image8& image, int64_t top, int64_t left, int64_t height, int64_t width);

// A flip with probability one half, a crop to 80 to 100 % of both sides.
Image8 augmented(Image8 image, const AllowedAugmentation& allowed, uint64_t key);

}  // namespace asr
