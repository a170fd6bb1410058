#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace asr {

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path) {
  struct Descriptor {
    int value;
    ~Descriptor() {
      if (value >= 0) ::close(value);
    }
  } file{::open(  // a named pipe must not block; it is refused below
      path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  check(file.value >= 0, path, ": ", std::strerror(errno));
  struct stat info;
  const bool found = fstat(file.value, &info) == 0;  // before the message reads errno
  check(found, path, ": ", std::strerror(errno));
  check(S_ISREG(info.st_mode), path, ": is not a regular file");
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<MappedFile>(new MappedFile(nullptr, 0));
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.value, 0);
  const int reason = errno;
  if (data == MAP_FAILED && reason == ENOMEM) fail_system(path, ": cannot be mapped: ", std::strerror(reason));
  check(data != MAP_FAILED, path, ": cannot be mapped: ", std::strerror(reason));
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<const uint8_t*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace asr
