#include "streams/members.h"

#include <algorithm>

#include "base/error.h"

namespace asr {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* name, const std::string& place) {
  check(object.is_object(), place, ": is no object");
  check(object.contains(name), place, ": has no '", name, "'");
  return object[name];
}

}  // namespace

const json& object_member(const json& object, const char* name, const std::string& place) {
  const auto& out = member(object, name, place);
  check(out.is_object(), place, ": '", name, "' is no object");
  return out;
}

const json& list_member(const json& object, const char* name, const std::string& place) {
  const auto& out = member(object, name, place);
  check(out.is_array(), place, ": '", name, "' is no list");
  return out;
}

std::string text_member(const json& object, const char* name, const std::string& place) {
  const auto& out = member(object, name, place);
  check(out.is_string(), place, ": '", name, "' is no text");
  return out.get<std::string>();
}

std::string text_member(const json& object, const char* name, const std::string& fallback, const std::string& place) {
  return object.contains(name) ? text_member(object, name, place) : fallback;
}

bool is_count(const json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= static_cast<uint64_t>(kLargestCount);
  return value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() <= kLargestCount;
}

int64_t count_member(const json& object, const char* name, const std::string& place) {
  const auto& out = member(object, name, place);
  check(is_count(out), place, ": '", name, "' is no count from 0 to ", kLargestCount);
  return out.get<int64_t>();
}

int64_t count_member(const json& object, const char* name, int64_t fallback, const std::string& place) {
  return object.contains(name) ? count_member(object, name, place) : fallback;
}

bool truth_member(const json& object, const char* name, bool fallback, const std::string& place) {
  if (!object.contains(name)) return fallback;
  check(object[name].is_boolean(), place, ": '", name, "' is neither true nor false");
  return object[name].get<bool>();
}

const std::string& clean_path(const std::string& path, const std::string& place) {
  const bool control = std::any_of(path.begin(), path.end(), [](char c) { return static_cast<unsigned char>(c) < 32; });
  check(!control, place, ": a path has control characters");
  check(path.size() <= kLongestPath, place, ": a path is longer than ", kLongestPath, " bytes");
  return path;
}

}  // namespace asr
