// Comma-separated values as RFC 4180 has them: a quoted field may hold commas, quotes (doubled), line ends and spaces
// at its ends. White space around a field that is not quoted goes.
#pragma once

#include <string>
#include <vector>

namespace asr {

// One line. `place` ("FILE:LINE") opens error messages.
std::vector<std::string> split_csv_line(const std::string& line, const std::string& place);

struct CsvRecord {
  std::vector<std::string> fields;
  std::string place;  // "FILE:LINE" of its first line
};
// All records of a file but blank lines; a byte-order mark is passed over.
std::vector<CsvRecord> split_csv(const std::string& text, const std::string& path);

// A field as it is written: quoted where it must be for split_csv to give the same text back.
std::string csv_field(const std::string& text);

// The same for a table that a spreadsheet may open: a text that it would take for a formula (=, +, -, @, tab or
// carriage return in front) gets an apostrophe before it.
std::string csv_safe_field(const std::string& text);

// Without white space at the ends; a carriage return counts as such.
std::string trim_field(const std::string& text);

}  // namespace asr
