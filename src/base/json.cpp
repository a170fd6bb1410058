#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

std::string shown_json(const json& value) {
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 40);
}

// The byte of the first bracket that is nested too deeply, or the text's size.
size_t first_too_deep(std::string_view text) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) return i;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return text.size();
}

double real_or_nan(const json& value, const std::string& what) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  check(value.is_number(), what, " is ", shown_json(value), ", not a number or null");
  return value.get<double>();
}

}  // namespace

std::string json_reason(const json::exception& error) {
  const std::string text = error.what();
  const size_t column = text.find("column ");
  const size_t preamble = column != std::string::npos ? text.find(": ", column) : text.find("] ");
  std::string out = printable(preamble == std::string::npos ? text : text.substr(preamble + 2), 160);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  return out;
}

bool try_parse_json(std::string_view text, json& out, JsonProblem& problem) {
  out = json();
  const size_t deep = first_too_deep(text), zero = text.find('\0');
  if (deep < text.size()) {
    problem = {cat("not valid JSON: nested deeper than ", kDeepestJson), deep};
  } else if (zero != std::string_view::npos) {  // which the library takes for the end of the text
    problem = {"not valid JSON: a zero byte", zero};
  } else {
    try {
      out = json::parse(text.data(), text.data() + text.size());
      return true;
    } catch (const json::parse_error& error) {  // it counts bytes from 1
      problem = {"not valid JSON: " + json_reason(error), error.byte > 0 ? error.byte - 1 : 0};
    } catch (const json::exception& error) {  // a number beyond any range
      problem = {"not valid JSON: " + json_reason(error), 0};
    }
  }
  return false;
}

std::string line_and_column(std::string_view text, size_t byte, size_t first_line) {
  const auto before = text.substr(0, std::min(byte, text.size()));
  const auto line = first_line + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t end_of_last = before.rfind('\n');
  const size_t start = end_of_last == std::string_view::npos ? 0 : end_of_last + 1;
  return cat(line, ":", before.size() - start + 1);
}

json parse_json(std::string_view text, const std::string& where, size_t first_line) {
  json out;
  JsonProblem problem;
  if (!try_parse_json(text, out, problem))
    fail(where, ":", line_and_column(text, problem.byte, first_line), ": ", problem.reason);
  return out;
}

json read_json(const std::string& path, size_t limit) {
  return parse_json(read_file(path, limit), path);
}

json read_json_object(const std::string& path, size_t limit) {
  auto out = read_json(path, limit);
  check(out.is_object(), path, ": is ", shown_json(out), ", not a JSON object");
  return out;
}

void for_each_json_line(const std::string& path, const std::function<void(const json&, const std::string&)>& use,
                        bool growing) {
  std::string text = read_file(path);
  if (growing) text.resize(text.rfind('\n') + 1);  // npos + 1 is 0: no line has ended yet
  size_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const json object = parse_json(line, path, number);
    const std::string place = cat(path, ":", number);
    check(object.is_object(), place, ": is ", shown_json(object), ", not a JSON object");
    use(object, place);
  }
}

JsonFields::JsonFields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
  check(object_.is_object(), where_, ": is ", shown_json(object_), ", not a JSON object");
}

bool JsonFields::has(const char* key) const {
  const auto place = object_.find(key);
  return place != object_.end() && !place->is_null();
}

const json& JsonFields::at(const char* key) const {
  const auto place = object_.find(key);
  check(place != object_.end(), where_, ": key '", key, "' is missing; was it written by this version?");
  return *place;
}

JsonFields JsonFields::object(const char* key) const {
  return {at(key), cat(where_, ": ", key)};
}

std::string JsonFields::text(const char* key) const {
  const auto& value = at(key);
  check(value.is_string(), where_, ": '", key, "' is ", shown_json(value), ", not a text");
  return value.get<std::string>();
}

std::string JsonFields::text_or(const char* key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

int64_t JsonFields::integer(const char* key) const {
  const auto& value = at(key);
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  check(fits, where_, ": '", key, "' is ", shown_json(value), ", not a whole number");
  return value.get<int64_t>();
}

bool JsonFields::flag(const char* key) const {
  const auto& value = at(key);
  check(value.is_boolean(), where_, ": '", key, "' is ", shown_json(value), ", not true or false");
  return value.get<bool>();
}

double JsonFields::number(const char* key) const {
  const auto& value = at(key);
  check(value.is_number(), where_, ": '", key, "' is ", shown_json(value), ", not a number");
  return value.get<double>();
}

double JsonFields::number_or_nan(const char* key) const {
  const auto place = object_.find(key);
  if (place == object_.end()) return std::numeric_limits<double>::quiet_NaN();
  return real_or_nan(*place, cat(where_, ": '", key, "'"));
}

const json& JsonFields::list(const char* key) const {
  const auto& value = at(key);
  check(value.is_array(), where_, ": '", key, "' is ", shown_json(value), ", not a list");
  return value;
}

std::vector<std::string> JsonFields::texts(const char* key) const {
  std::vector<std::string> out;
  for (const auto& item : list(key)) {
    check(item.is_string(), where_, ": '", key, "' holds ", shown_json(item), ", not a text");
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<std::vector<double>> JsonFields::number_rows(const char* key) const {
  std::vector<std::vector<double>> out;
  const auto what = cat(where_, ": an entry of '", key, "'");
  for (const auto& row : list(key)) {
    check(row.is_array(), what, " is ", shown_json(row), ", not a list");
    out.emplace_back();
    for (const auto& value : row) out.back().push_back(real_or_nan(value, what));
  }
  return out;
}

}  // namespace asr
