#include "streams/picture_member.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "streams/members.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr const char* kPictureKeys[] = {"image",    "images",  "image_path", "image_name", "image_file", "img",
                                        "img_path", "picture", "image_url",  "video",      "videos"};

bool begins_with(const std::string& text, const char* start) {
  return text.rfind(start, 0) == 0;
}

bool is_nothing(const json& value) {
  return value.is_null() || (value.is_string() && trimmed(value.get<std::string>()).empty()) ||
         (value.is_array() && (value.empty() || (value.size() == 1 && value[0].is_null())));
}

std::string path_problem(const std::string& path) {
  if (begins_with(path, "http://") || begins_with(path, "https://"))
    return "is a web address; nothing is downloaded, so fetch the pictures and name the files";
  if (begins_with(path, "data:") || path.size() > kLongestPath)
    return "holds the picture itself; write it to a file and name that";
  const bool control = std::any_of(path.begin(), path.end(), [](char c) { return static_cast<unsigned char>(c) < 32; });
  return control ? "is a path with control characters" : "";
}

// A text or a number; {"path": ...} of Hugging Face's datasets, {"url": ...} of chat services.
std::string read_path(const json& value, std::string& path) {
  if (value.is_object()) {
    for (const char* name : {"path", "url"})
      if (value.contains(name) && value[name].is_string()) return read_path(value[name], path);
    return value.contains("bytes") ? "holds the picture itself; write it to a file and name that"
                                   : "is a JSON object, not a path";
  }
  if (!value.is_string() && !value.is_number()) return cat("is a JSON ", value.type_name(), ", not a path");
  path = trimmed(value.is_string() ? value.get<std::string>() : value.dump());
  if (begins_with(path, "file://")) path.erase(0, 7);
  std::replace(path.begin(), path.end(), '\\', '/');
  return path_problem(path);
}

bool looks_like_picture(const json& value) {
  if (value.is_array() && value.size() == 1) return looks_like_picture(value[0]);
  if (!value.is_string()) return false;
  auto text = trimmed(value.get<std::string>());
  if (text.size() > kLongestPath || text.find('\n') != std::string::npos) return false;
  for (auto& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const char* end : {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".mp4", ".avi", ".webm"})
    if (ends_with(text, end)) return true;
  return false;
}

bool is_picture_key(const std::string& name) {
  return std::find(std::begin(kPictureKeys), std::end(kPictureKeys), name) != std::end(kPictureKeys);
}

}  // namespace

std::string read_picture_member(const json& row, std::string& path) {
  for (const char* name : kPictureKeys) {
    if (!row.contains(name) || is_nothing(row[name])) continue;
    const auto& member = row[name];
    if (member.is_array() && member.size() > 1)
      return cat("'", name, "' names ", member.size(), " pictures; a row has one");
    const auto reason = read_path(member.is_array() ? member[0] : member, path);
    return reason.empty() ? reason : cat("'", name, "' ", reason);
  }
  return "";
}

std::string unknown_picture_member(const json& row) {
  for (const auto& [name, value] : row.items())
    if (!is_picture_key(name) && looks_like_picture(value)) return name;
  return "";
}

}  // namespace asr
