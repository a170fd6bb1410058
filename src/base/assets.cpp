#include "base/assets.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

std::string executable_folder() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size <= 0) return "";
  const std::string whole(path, static_cast<size_t>(size));
  return whole.substr(0, whole.rfind('/'));
}

}  // namespace

std::string find_asset(const std::string& name) {
  std::vector<std::string> folders;
  const char* variable = std::getenv("ASR_ASSETS");
  if (variable && *variable) folders.emplace_back(variable);
  const auto beside = executable_folder();
  if (!beside.empty()) folders.push_back(beside + "/../assets");
  folders.emplace_back("./assets");
  for (const auto& folder : folders) {
    const auto path = folder + "/" + name;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  fail("asset '", printable(name), "' is in none of ", join(folders, ", "),
       "; set ASR_ASSETS to the folder that holds it");
}

}  // namespace asr
