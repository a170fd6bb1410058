#include "io/video.h"

#include "base/error.h"

namespace asr {

std::string no_video_reason() {
  return "this build reads no videos: build with 'make ASR_FFMPEG=1' (-DASR_FFMPEG=ON), or extract frames: "
         "ffmpeg -i FILE -r 1 FOLDER/%06d.jpg";
}

#ifndef ASR_FFMPEG

bool reads_videos() {
  return false;
}

std::vector<Image8> read_video(const std::string& path, int64_t /*count*/, const VideoLimits& /*limits*/) {
  fail(path, ": ", no_video_reason());
}

std::vector<Image8> read_video_at(const std::string& path, const std::vector<double>& /*times*/,
                                  const VideoLimits& /*limits*/) {
  fail(path, ": ", no_video_reason());
}

#endif

}  // namespace asr
