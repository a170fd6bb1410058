// Format and size of a picture from its first bytes, so that a stream of any size can be looked through before
// training.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "io/image_codecs.h"

namespace asr {
namespace {

constexpr int kMostSegments = 4096;  // of a JPEG before its frame header; cameras write a few dozen

// A file read here and there.
class HeaderFile {
 public:
  explicit HeaderFile(const std::string& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe must not block
    const int reason = errno;
    check(descriptor_ >= 0, path, ": ", std::strerror(reason));
    struct stat info = {};
    const bool found = fstat(descriptor_, &info) == 0;
    if (!found || !S_ISREG(info.st_mode)) {
      ::close(descriptor_);
      fail(path, ": is not a regular file");
    }
  }
  ~HeaderFile() { ::close(descriptor_); }
  HeaderFile(const HeaderFile&) = delete;
  HeaderFile& operator=(const HeaderFile&) = delete;

  // How many of `size` bytes from `offset` on there are.
  size_t read(int64_t offset, uint8_t* out, size_t size) const {
    size_t done = 0;
    while (done < size) {
      const ssize_t got = pread(descriptor_, out + done, size - done, offset + static_cast<int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      check(got >= 0, path_, ": cannot be read");
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

 private:
  const std::string& path_;
  int descriptor_ = -1;
};

int64_t big_endian(const uint8_t* bytes, int count) {
  int64_t out = 0;
  for (int i = 0; i < count; ++i) out = out << 8 | bytes[i];
  return out;
}

// Frame headers but DHT, JPG and DAC, which share their range.
bool is_frame_header(uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

void check_jpeg_header(const HeaderFile& file, const std::string& path, const ImageLimits& limits) {
  int64_t at = 2;  // behind the start of the image
  for (int i = 0; i < kMostSegments; ++i) {
    std::array<uint8_t, 10> head = {};  // FF, marker, length of two bytes, and of a frame: precision, height, width, n
    const size_t got = file.read(at, head.data(), head.size());
    check(got >= 4, path, ": damaged JPEG: the file ends in its header; fetch the file again");
    const uint8_t marker = head[1];
    if (head[0] != 0xff || marker == 0xff || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {
      ++at;  // fill bytes, marks without a length, and stray bytes, which libjpeg passes over too
      continue;
    }
    if (is_frame_header(marker)) {
      check(got == head.size(), path, ": damaged JPEG: the file ends in its header; fetch the file again");
      return check_dimensions(big_endian(&head[5], 2), big_endian(&head[7], 2), path, limits);
    }
    check(marker != 0xd9 && marker != 0xda, path, ": damaged JPEG: no frame header; fetch the file again");
    at += 2 + std::max<int64_t>(2, big_endian(&head[2], 2));
  }
  fail(path, ": damaged JPEG: no frame header in its first ", kMostSegments, " segments; fetch the file again");
}

void check_png_header(const HeaderFile& file, const std::string& path, const ImageLimits& limits) {
  std::array<uint8_t, 16> head = {};  // length and name of the first chunk, width, height
  const bool whole = file.read(8, head.data(), head.size()) == head.size();
  check(whole && std::memcmp(&head[4], "IHDR", 4) == 0, path, ": damaged PNG: no header; fetch the file again");
  check_dimensions(big_endian(&head[12], 4), big_endian(&head[8], 4), path, limits);
}

}  // namespace

std::string image_header_problem(const std::string& path, const ImageLimits& limits) {
  try {
    const HeaderFile file(path);
    std::array<uint8_t, 12> head = {};
    const ByteSpan first{head.data(), file.read(0, head.data(), head.size())};
    switch (image_format(first, path)) {
      case ImageFormat::jpeg:
        check_jpeg_header(file, path, limits);
        break;
      case ImageFormat::png:
        check_png_header(file, path, limits);
        break;
    }
    return "";
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.rfind(path + ": ", 0) == 0 ? text.substr(path.size() + 2) : text;
  }
}

}  // namespace asr
