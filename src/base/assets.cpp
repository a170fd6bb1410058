#include "base/assets.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/folders.h"
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

// OWNER/NAME in the characters that the hub allows; "models/NAME", as our configurations have it, is a folder.
bool is_hub_name(const std::string& text) {
  const size_t slash = text.find('/');
  const bool two = slash != std::string::npos && slash > 0 && slash + 1 < text.size() &&
                   text.find('/', slash + 1) == std::string::npos;
  const auto good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' || c == '/';
  };
  return two && text[0] != '.' && text.compare(0, slash, "models") != 0 && std::all_of(text.begin(), text.end(), good);
}

}  // namespace

void check_model_path(const std::string& path) {
  if (path_exists(path)) return;
  const bool file = ends_with(path, ".safetensors");
  check(!file, path, ": there is no such file");
  const auto name = path.substr(path.rfind('/') + 1);
  fail(path,
       ": there is no such folder, and nothing is downloaded; fetch a model of the Hugging Face hub with 'hf download ",
       is_hub_name(path) ? path : "OWNER/" + name, " --local-dir models/", name, "' and give that folder");
}

std::string find_asset(const std::string& name) {
  std::vector<std::string> folders;
  const char* variable = std::getenv("ASR_ASSETS");
  if (variable && *variable) folders.emplace_back(variable);
  const auto beside = executable_folder();
  if (!beside.empty()) {
    folders.push_back(beside + "/../assets");
    folders.push_back(beside + "/../share/asr/assets");
  }
  folders.emplace_back("./assets");
  folders.emplace_back(ASR_ASSET_FOLDER);
  for (const auto& folder : folders) {
    const auto path = folder + "/" + name;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  fail("asset '", printable(name), "' is in none of ", join(folders, ", "),
       "; set ASR_ASSETS to the folder that holds it");
}

}  // namespace asr
