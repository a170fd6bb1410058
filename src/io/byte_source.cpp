#include "io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace asr {
namespace {

gzFile handle(void* file) {
  return static_cast<gzFile>(file);
}

}  // namespace

ByteSource::ByteSource(const std::string& path) : path_(path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe must not block
  const int reason = errno;
  check(file >= 0, path, ": ", std::strerror(reason));
  struct stat info = {};
  const bool known = fstat(file, &info) == 0;
  if (known && S_ISREG(info.st_mode)) file_ = gzdopen(file, "rb");
  if (!file_) ::close(file);
  check(!S_ISDIR(info.st_mode), path, ": is a folder, not a file");
  check(known && S_ISREG(info.st_mode), path, ": is not a regular file");
  if (!file_) fail_system(path, ": cannot be opened for want of memory");
  gzbuffer(handle(file_), 1 << 17);
}

ByteSource::~ByteSource() {
  if (file_) gzclose(handle(file_));
}

size_t ByteSource::read(char* out, size_t size) {
  const int got = gzread(handle(file_), out, static_cast<unsigned>(size));
  if (got > 0) return static_cast<size_t>(got);
  int code = Z_OK;
  const char* reason = gzerror(handle(file_), &code);
  check(code != Z_ERRNO, path_, ": cannot be read: ", std::strerror(errno));
  check(code == Z_OK || code == Z_STREAM_END, path_, ": the compressed file is damaged or cut off (",
        reason && *reason ? reason : "unexpected end", "); fetch it again");
  return 0;
}

int64_t ByteSource::consumed() const {
  return gzoffset(handle(file_));
}

bool CharacterSource::line(std::string& out, size_t limit) {
  out.clear();
  if (at_end()) return false;
  if (newline_) ++line_;
  column_ = 0;
  newline_ = true;  // the next line is a new one, whether this ends in a line feed or in the file
  while (!at_end()) {
    const char* begin = buffer_.data() + at_;
    const void* found = std::memchr(begin, '\n', end_ - at_);
    const size_t size = found ? static_cast<size_t>(static_cast<const char*>(found) - begin) : end_ - at_;
    check(out.size() + size <= limit, bytes_.path(), ":", line_, ": the line is longer than ", limit, " bytes");
    out.append(begin, size);
    at_ += size + (found ? 1 : 0);
    if (at_ == end_) fill();
    if (found) break;
  }
  while (!out.empty() && out.back() == '\r') out.pop_back();
  return true;
}

void CharacterSource::skip_mark() {
  if (end_ - at_ >= 3 && std::memcmp(buffer_.data() + at_, "\xef\xbb\xbf", 3) == 0) at_ += 3;
  if (at_ == end_) fill();
}

}  // namespace asr
