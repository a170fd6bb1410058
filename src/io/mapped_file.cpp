#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include "base/error.h"

namespace asr {
namespace {

// What is mapped, for the handler: it may take no lock.
std::array<std::atomic<const MappedFile*>, 1024> mapped_files{};

void say_to_stderr(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

// Reading behind the end of a truncated file.
void on_bus_error(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const uint8_t*>(info->si_addr);
  for (const auto& entry : mapped_files) {
    const auto* file = entry.load();
    if (!file || address < file->bytes().data || address >= file->bytes().data + file->bytes().size) continue;
    say_to_stderr("asr: ");
    say_to_stderr(file->path().c_str());
    say_to_stderr(": has become shorter while it was in use; restore it (a run goes on from its newest checkpoint)\n");
    _exit(1);
  }
  std::signal(SIGBUS, SIG_DFL);  // not ours: it comes again and ends the program as ever
}

void register_mapped(const MappedFile* file) {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, nullptr);
  });
  for (auto& entry : mapped_files) {
    const MappedFile* empty = nullptr;
    if (entry.compare_exchange_strong(empty, file)) return;
  }
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile(path));
  // A named pipe must not block; it is refused below.
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check(file->descriptor_ >= 0, path, ": ", std::strerror(errno));
  struct stat info;
  const bool found = fstat(file->descriptor_, &info) == 0;  // before the message reads errno
  check(found, path, ": ", std::strerror(errno));
  check(S_ISREG(info.st_mode), path, ": is not a regular file");
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return file;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file->descriptor_, 0);
  const int reason = errno;
  if (data == MAP_FAILED && reason == ENOMEM) fail_system(path, ": cannot be mapped: ", std::strerror(reason));
  check(data != MAP_FAILED, path, ": cannot be mapped: ", std::strerror(reason));
  file->data_ = static_cast<const uint8_t*>(data);
  file->size_ = size;
  register_mapped(file.get());
  return file;
}

void MappedFile::check_whole() const {
  struct stat info = {};
  const bool found = fstat(descriptor_, &info) == 0;
  if (!found || static_cast<size_t>(info.st_size) < size_)
    fail_system(path_, ": has become shorter while it was in use (", size_, " bytes, now ", info.st_size, ")");
}

MappedFile::~MappedFile() {
  for (auto& entry : mapped_files) {
    const MappedFile* self = this;
    if (entry.compare_exchange_strong(self, nullptr)) break;
  }
  if (data_) munmap(const_cast<uint8_t*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace asr
