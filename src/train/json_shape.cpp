#include "train/json_shape.h"

#include "base/json.h"

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

constexpr size_t kLongestText = 400;

// "2026-01-31T12:00:00Z"
bool fits_time(const std::string& text) {
  const std::string form = "0000-00-00T00:00:00Z";
  bool fits = text.size() == form.size();
  for (size_t i = 0; fits && i < form.size(); ++i) fits = form[i] == '0' ? is_digit(text[i]) : text[i] == form[i];
  return fits;
}

bool is_of_kind(const std::string& text, const std::string& kind, const JsonNames& names) {
  static const std::set<std::string> parts = {"head", "medium", "tail", "unseen"};
  if (kind == "text") return text.size() <= kLongestText;
  if (kind == "time") return fits_time(text);
  if (kind == "skill") return names.skills.count(text) > 0;
  if (kind == "task") return names.tasks.count(text) > 0;
  if (kind == "part") return parts.count(text) > 0;
  if (kind == "term")
    return text.size() <= 40 &&
           (ends_with(text, "_loss") || ends_with(text, "_weight") || ends_with(text, "_divergence") ||
            ends_with(text, "_count")) &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
  if (kind == "hash") return text.size() <= 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return false;
}

bool fits(const json& value, const std::string& kind, const JsonNames& names) {
  if (kind == "anything") return true;
  if (kind == "number") return value.is_number() || value.is_null();
  if (kind == "flag") return value.is_boolean();
  return value.is_string() && is_of_kind(value.get<std::string>(), kind, names);
}

const json* declared(const json& shape, const std::string& key, const JsonNames& names) {
  const auto literal = shape.find(key);
  if (literal != shape.end()) return &*literal;
  for (const auto& [pattern, value] : shape.items())
    if (pattern.size() > 2 && pattern[0] == '<' && is_of_kind(key, pattern.substr(1, pattern.size() - 2), names))
      return &value;
  return nullptr;
}

}  // namespace

void match_json(const json& value, const json& shape, const JsonNames& names, const std::string& where,
                std::vector<std::string>& problems) {
  if (shape.is_object() && value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      const auto* expected = declared(shape, key, names);
      if (expected)
        match_json(member, *expected, names, cat(where, ": ", key), problems);
      else
        problems.push_back(cat(where, ": member '", printable(key), "' is not one that a run writes"));
    }
  } else if (shape.is_array() && value.is_array()) {
    for (const auto& item : value) match_json(item, shape[0], names, where, problems);
  } else if (!shape.is_string() || !fits(value, shape.get<std::string>(), names)) {
    problems.push_back(cat(where, ": is ", printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 40),
                           ", where a run writes ", printable(shape.dump(), 60)));
  }
}

nlohmann::json json_shape(const char* text) {
  return parse_json(text, "declared members");
}

}  // namespace asr
