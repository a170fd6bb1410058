// Frames of video files through FFmpeg's libraries, where the program was built with them (-DASR_FFMPEG=ON). Files are
// untrusted: only plain container files are opened (no playlists, no network), frames and time are bounded, and damage,
// truncation, files without pictures and files that take too long are errors of one line that names the file.
#pragma once

#include <string>
#include <vector>

#include "io/image.h"

namespace asr {

struct VideoLimits {
  ImageLimits frame = {20'000'000, 16'384};
  double seconds = 60;  // of decoding, a file
};

bool reads_videos();            // whether this build does
std::string no_video_reason();  // "this build reads no videos; ..." with what to do

// The frames shown at the middles of `count` equal stretches; fewer where the video has fewer.
std::vector<Image8> read_video(const std::string& path, int64_t count, const VideoLimits& limits = {});

// The frames shown at these times, ascending, in seconds from the beginning.
std::vector<Image8> read_video_at(const std::string& path, const std::vector<double>& times,
                                  const VideoLimits& limits = {});

}  // namespace asr
