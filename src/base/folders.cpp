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
  // A place that cannot be one is the user's to change; a full disk is not.
  check(error != std::errc::permission_denied && error != std::errc::not_a_directory &&
            error != std::errc::too_many_symbolic_link_levels && error != std::errc::filename_too_long &&
            error != std::errc::read_only_file_system && error != std::errc::file_exists &&
            error != std::errc::no_such_file_or_directory && error != std::errc::invalid_argument,
        path, ": cannot be created: ", error.message(), "; choose another place");
  if (error) fail_system(path, ": cannot be created: ", error.message());
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_system(path, ": cannot be deleted: ", error.message());
}

}  // namespace asr
