#include "report/json_file.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 40);
}

// The library's own message spans several parts; the byte where it stopped is all a reader needs.
json parse_at(const std::string& text, const std::function<std::string(size_t byte)>& place) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    fail(place(error.byte), ": is not valid JSON; restore the file or run this again");
  } catch (const json::exception&) {  // a number beyond any range
    fail(place(0), ": holds a number that cannot be represented");
  }
}

}  // namespace

json read_json(const std::string& path) {
  const std::string text = read_file(path, size_t(256) << 20);
  return parse_at(text, [&](size_t byte) {
    const auto end = text.begin() + static_cast<ptrdiff_t>(std::min(byte, text.size()));
    return cat(path, ":", 1 + std::count(text.begin(), end, '\n'));
  });
}

void for_each_json_line(const std::string& path, const std::function<void(const json&, const std::string&)>& use,
                        bool growing) {
  std::string text = read_file(path);
  if (growing) text.resize(text.rfind('\n') + 1);  // npos + 1 is 0: no line has ended yet
  int number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = cat(path, ":", number);
    const json object = parse_at(line, [&](size_t) { return place; });
    check(object.is_object(), place, ": is ", shown(object), ", not a JSON object");
    use(object, place);
  }
}

JsonFields::JsonFields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
  check(object_.is_object(), where_, ": is ", shown(object_), ", not a JSON object");
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
  check(value.is_string(), where_, ": '", key, "' is ", shown(value), ", not a text");
  return value.get<std::string>();
}

std::string JsonFields::text_or(const char* key, const char* otherwise) const {
  return has(key) ? text(key) : otherwise;
}

int64_t JsonFields::integer(const char* key) const {
  const auto& value = at(key);
  check(value.is_number_integer(), where_, ": '", key, "' is ", shown(value), ", not a whole number");
  return value.get<int64_t>();
}

bool JsonFields::flag(const char* key) const {
  const auto& value = at(key);
  check(value.is_boolean(), where_, ": '", key, "' is ", shown(value), ", not true or false");
  return value.get<bool>();
}

double JsonFields::number_or_nan(const char* key) const {
  const auto place = object_.find(key);
  if (place == object_.end() || place->is_null()) return std::numeric_limits<double>::quiet_NaN();
  check(place->is_number(), where_, ": '", key, "' is ", shown(*place), ", not a number or null");
  return place->get<double>();
}

const json& JsonFields::list(const char* key) const {
  const auto& value = at(key);
  check(value.is_array(), where_, ": '", key, "' is ", shown(value), ", not a list");
  return value;
}

std::vector<std::string> JsonFields::texts(const char* key) const {
  std::vector<std::string> out;
  for (const auto& item : list(key)) {
    check(item.is_string(), where_, ": '", key, "' holds ", shown(item), ", not a text");
    out.push_back(item.get<std::string>());
  }
  return out;
}

}  // namespace asr
