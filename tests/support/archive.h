// Reference data comes as .tar.gz; tests unpack it into a temporary folder with tar.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace asr {

// False when tar is missing or fails. No shell is involved.
inline bool unpack(const std::string& archive, const std::string& folder) {
  std::string parts[] = {"tar", "-xzf", archive, "-C", folder};
  char* arguments[] = {parts[0].data(), parts[1].data(), parts[2].data(), parts[3].data(), parts[4].data(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, "tar", nullptr, nullptr, arguments, environ) != 0) return false;
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace asr
