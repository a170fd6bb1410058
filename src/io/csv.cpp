#include "io/csv.h"

#include "base/error.h"

namespace asr {

std::string trim_field(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> split_csv_line(const std::string& line, const std::string& place) {
  std::vector<std::string> fields;
  std::string field;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c != '"')
        field += c;
      else if (i + 1 < line.size() && line[i + 1] == '"')
        field += '"', ++i;
      else {
        quoted = false;
        const size_t next = line.find_first_not_of(" \t\r", i + 1);
        check(next == std::string::npos || line[next] == ',', place, ": text after the closing quote of a field");
      }
    } else if (c == '"' && trim_field(field).empty()) {
      field.clear(), quoted = true;
    } else if (c == ',') {
      fields.push_back(trim_field(field)), field.clear();
    } else {
      field += c;
    }
  }
  check(!quoted, place, ": a quoted field does not end on this line");
  fields.push_back(trim_field(field));
  return fields;
}

}  // namespace asr
