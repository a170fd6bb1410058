#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
constexpr const char* kTemporary = ".tmp-";

bool is_temporary(const fs::path& path) {
  const auto name = path.filename().string();
  const size_t mark = name.rfind(kTemporary), number = mark + std::strlen(kTemporary);
  return mark != std::string::npos && number < name.size() &&
         name.find_first_not_of("0123456789", number) == std::string::npos;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  check(!path.empty(), "output path is empty");
  // A link is written through, as a shell would; its target is what gets replaced.
  if (char* real = realpath(path.c_str(), nullptr)) {
    path_ = real;
    std::free(real);
  }
  struct stat info;
  check(stat(folder_of(path_).c_str(), &info) == 0 && S_ISDIR(info.st_mode), path, ": folder '", folder_of(path_),
        "' does not exist; create it first");
  const bool exists = stat(path_.c_str(), &info) == 0;
  check(!exists || !S_ISDIR(info.st_mode), path, ": is a folder; name a file");
  check(!exists || S_ISREG(info.st_mode), path, ": is not a regular file; name another output");
  temporary_ = path_ + kTemporary + std::to_string(getpid());
  unlink(temporary_.c_str());  // left by a process of the same number that was killed
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  const int reason = errno;
  // ENOENT: a link into a folder where no file can be made, such as one of /proc.
  const bool bad_place =
      reason == EACCES || reason == EPERM || reason == EROFS || reason == ENAMETOOLONG || reason == ENOENT;
  check(descriptor_ >= 0 || !bad_place, path, ": cannot write here: ", std::strerror(reason), "; choose another place");
  if (descriptor_ < 0) fail_system(path, ": cannot write here: ", std::strerror(reason));
  if (exists) fchmod(descriptor_, info.st_mode & 07777);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t size) {
  auto bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_system(path_, ": write failed: ", std::strerror(errno), "; the old file is untouched");
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail_system(path_, ": flush failed: ", std::strerror(errno));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_system(path_, ": rename failed: ", std::strerror(errno));
  close(descriptor_);
  descriptor_ = -1;
  sync_to_disk(folder_of(path_));  // the rename itself
}

void write_file_atomically(const std::string& path, const std::string& content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

bool is_unused_folder(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (!is_temporary(entry.path())) return false;
  // No folder can have a name that is too long; whoever makes it will say so.
  return !error || error == std::errc::no_such_file_or_directory || error == std::errc::filename_too_long;
}

void remove_temporaries(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (is_temporary(entry.path())) found.push_back(entry.path());
  for (const auto& path : found) fs::remove(path, error);
}

void sync_to_disk(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) {
    fsync(descriptor);
    close(descriptor);
  }
}

std::string read_file(const std::string& path, size_t limit) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe must not block
  const int opened = errno;
  check(descriptor >= 0, path, ": ", std::strerror(opened));
  struct Closer {
    int descriptor;
    ~Closer() { close(descriptor); }
  } const closer{descriptor};
  struct stat info;
  const bool found = fstat(descriptor, &info) == 0;  // before the message reads errno
  check(found, path, ": ", std::strerror(errno));
  check(!S_ISDIR(info.st_mode), path, ": is a folder, not a file");
  check(S_ISREG(info.st_mode), path, ": is not a regular file");
  std::string content;
  const auto check_size = [&](size_t size) {
    check(size <= limit, path, ": is ", size, " bytes, more than the ", limit, " expected here");
  };
  check_size(static_cast<size_t>(info.st_size));
  content.resize(static_cast<size_t>(info.st_size) + 1);  // one more, to meet the end
  size_t size = 0;
  while (true) {
    const ssize_t got = read(descriptor, content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    const int reason = errno;
    check(got >= 0, path, ": cannot be read: ", std::strerror(reason));
    if (got == 0) break;
    size += static_cast<size_t>(got);
    check_size(size);  // it may grow, and some files of the system do not say their size
    if (size == content.size()) content.resize(2 * size);
  }
  content.resize(size);
  return content;
}

}  // namespace asr
