#include "base/folders.h"

#include <algorithm>

#include "base/error.h"

namespace asr {

namespace fs = std::filesystem;

bool path_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    out.push_back(entry->path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_system(path, ": cannot be created: ", error.message());
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_system(path, ": cannot be deleted: ", error.message());
}

}  // namespace asr
