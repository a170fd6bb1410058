#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"

namespace asr {

FolderLock::FolderLock(const std::string& folder, double patience)
    : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  const auto begin = std::chrono::steady_clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  // Some network file systems have no locks; there it is up to the user.
  while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (waited() < patience) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    close(descriptor_);
    fail(folder, ": another process is at work here; wait for it, stop it, or choose another place");
  }
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace asr
