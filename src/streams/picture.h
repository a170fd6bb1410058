// The picture of a sample: an image file, or a video, of which a few frames are put side by side. A video is a folder
// of frames or, where the program was built with FFmpeg's libraries (io/video.h), a video file.
#pragma once

#include <string>
#include <vector>

#include "io/image.h"

namespace asr {

// An image as it is; of a video `frames` evenly spaced ones in a square arrangement, all at the size of the first. For
// "v/12", with no such file or folder, a video "v/12.mp4" stands, or one with another ending of videos.
Image8 read_picture(const std::string& path, int64_t frames);

// The files that read_picture would read.
std::vector<std::string> picture_files(const std::string& path, int64_t frames);

// "" where `path` is a file or a folder that holds frames; else why not.
std::string missing_picture(const std::string& path);

// The same, and the headers of the pictures that would be read are those of a JPEG or PNG of bearable size. Nothing is
// decoded; a video file is only looked for.
std::string picture_problem(const std::string& path, int64_t frames);

}  // namespace asr
