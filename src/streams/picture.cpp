#include "streams/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/folders.h"
#include "io/resample.h"
#include "io/video.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

std::string lower_extension(const fs::path& path) {
  auto out = path.extension().string();
  for (auto& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_frame(const fs::path& path) {
  const auto end = lower_extension(path);
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

constexpr std::array<const char*, 10> kVideo = {".mp4", ".avi",  ".mkv", ".webm", ".mov",
                                                ".m4v", ".mpeg", ".mpg", ".flv",  ".3gp"};

bool is_video(const fs::path& path) {
  const auto end = lower_extension(path);
  return std::any_of(kVideo.begin(), kVideo.end(), [&](const char* v) { return end == v; });
}

// Rows of NExT-QA name a video without its ending.
std::string with_ending(const std::string& path) {
  std::error_code error;
  if (path_exists(path)) return path;
  for (const char* end : kVideo)
    if (fs::is_regular_file(path + end, error)) return path + end;
  return path;
}

std::vector<std::string> frames_of(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_frame(entry.path())) out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

// The middles of equal stretches.
std::vector<std::string> chosen_frames(const std::string& folder, int64_t frames) {
  const auto files = frames_of(folder);
  const auto total = static_cast<int64_t>(files.size()), count = std::min(frames, total);
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(files[static_cast<size_t>((2 * i + 1) * total / (2 * count))]);
  return out;
}

void paste(const Image8& image, int64_t top, int64_t left, Image8& out) {
  for (int64_t y = 0; y < image.height; ++y)
    std::memcpy(&out.rgb[static_cast<size_t>(((top + y) * out.width + left) * 3)],
                &image.rgb[static_cast<size_t>(y * image.width * 3)], static_cast<size_t>(image.width * 3));
}

// All at the size of the first.
Image8 side_by_side(std::vector<Image8> frames) {
  const auto count = static_cast<int64_t>(frames.size());
  const auto across = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t down = (count + across - 1) / across, height = frames[0].height, width = frames[0].width;
  Image8 out{down * height, across * width, {}};
  out.rgb.assign(static_cast<size_t>(out.height * out.width * 3), 0);
  for (int64_t i = 0; i < count; ++i) {
    auto& frame = frames[static_cast<size_t>(i)];
    if (frame.height != height || frame.width != width) frame = resize(frame, height, width, ResampleFilter::Bilinear);
    paste(frame, i / across * height, i % across * width, out);
  }
  return out;
}

}  // namespace

Image8 read_picture(const std::string& named, int64_t frames) {
  const auto path = with_ending(named);
  std::error_code error;
  if (is_video(path) && fs::is_regular_file(path, error)) return side_by_side(read_video(path, frames));
  if (!fs::is_directory(path, error)) return read_image(path);
  std::vector<Image8> chosen;
  for (const auto& file : picture_files(path, frames)) chosen.push_back(read_image(file));
  return side_by_side(std::move(chosen));
}

std::vector<std::string> picture_files(const std::string& named, int64_t frames) {
  const auto path = with_ending(named);
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  auto files = chosen_frames(path, frames);
  check(!files.empty(), path, ": the folder holds no frames (.jpg or .png)");
  return files;
}

std::string picture_problem(const std::string& named, int64_t frames) {
  if (auto problem = missing_picture(named); !problem.empty()) return problem;
  const auto path = with_ending(named);
  if (is_video(path)) return "";
  std::error_code error;
  for (const auto& file : fs::is_directory(path, error) ? chosen_frames(path, frames) : std::vector{path})
    if (auto problem = image_header_problem(file); !problem.empty())
      return cat("cannot read the picture '", file, "': ", problem);
  return "";
}

std::string missing_picture(const std::string& named) {
  const auto path = with_ending(named);
  std::error_code error;
  const auto status = fs::status(path, error);
  if (fs::is_directory(status))
    return frames_of(path).empty() ? cat("the folder '", path, "' holds no frames (.jpg or .png)") : "";
  if (is_video(path) && !reads_videos()) return cat("'", path, "' is a video, and ", no_video_reason());
  if (fs::is_regular_file(status)) return "";
  return cat("there is no image '", path, "'");
}

}  // namespace asr
