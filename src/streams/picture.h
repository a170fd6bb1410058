// The picture of a sample: an image file, or a folder of frames of a video, of which a few are put side by side. Video
// files themselves are not read: their frames are to be extracted first.
#pragma once

#include <string>

#include "io/image.h"

namespace asr {

// An image as it is; of a folder `frames` evenly spaced ones in a square arrangement, all at the size of the first.
Image8 read_picture(const std::string& path, int64_t frames);

// "" where `path` is a file or a folder that holds frames; else why not.
std::string picture_problem(const std::string& path);

}  // namespace asr
