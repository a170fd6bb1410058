#include "io/csv.h"

#include <algorithm>

#include "base/error.h"

namespace asr {
namespace {

constexpr const char* kBlank = " \t\r";

// Reads the record that begins at `at` and leaves `at` behind its line end.
std::vector<std::string> next_record(const std::string& text, size_t& at, const std::string& place) {
  std::vector<std::string> fields;
  std::string field;
  bool quoted = false, was_quoted = false;
  const auto finish_field = [&] {
    fields.push_back(was_quoted ? field : trim_field(field));
    field.clear();
    was_quoted = false;
  };
  for (; at < text.size() && (quoted || text[at] != '\n'); ++at) {
    const char c = text[at];
    if (quoted && c == '"' && at + 1 < text.size() && text[at + 1] == '"') {
      field += '"';
      ++at;
    } else if (quoted && c == '"') {
      quoted = false;
      const size_t next = text.find_first_not_of(kBlank, at + 1);
      check(next == std::string::npos || text[next] == ',' || text[next] == '\n', place,
            ": text after the closing quote of a field");
      at = std::min(next, text.size()) - 1;
    } else if (!quoted && c == '"' && trim_field(field).empty()) {
      field.clear();
      quoted = was_quoted = true;
    } else if (!quoted && c == ',') {
      finish_field();
    } else {
      field += c;
    }
  }
  check(!quoted, place, ": a quoted field does not end");
  finish_field();
  ++at;
  return fields;
}

}  // namespace

std::string trim_field(const std::string& text) {
  const size_t begin = text.find_first_not_of(kBlank), end = text.find_last_not_of(kBlank);
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> split_csv_line(const std::string& line, const std::string& place) {
  size_t at = 0;
  return next_record(line, at, place);
}

std::vector<CsvRecord> split_csv(const std::string& text, const std::string& path) {
  std::vector<CsvRecord> out;
  const size_t first = text.compare(0, 3, "\xef\xbb\xbf") == 0 ? 3 : 0;
  ptrdiff_t line = 1;
  for (size_t at = first; at < text.size();) {
    const size_t begin = at;
    CsvRecord record{{}, cat(path, ":", line)};
    record.fields = next_record(text, at, record.place);
    const auto begins = text.begin() + static_cast<ptrdiff_t>(begin);
    const auto ends = text.begin() + static_cast<ptrdiff_t>(std::min(at, text.size()));
    line += std::count(begins, ends, '\n');
    if (record.fields.size() > 1 || !record.fields[0].empty()) out.push_back(std::move(record));
  }
  return out;
}

std::string csv_field(const std::string& text) {
  const bool plain = text.find_first_of(",\"\n\r") == std::string::npos && trim_field(text) == text;
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_safe_field(const std::string& text) {
  const bool formula = !text.empty() && std::string("=+-@\t\r").find(text[0]) != std::string::npos;
  return csv_field(formula ? "'" + text : text);
}

}  // namespace asr
