#include "report/matrix_file.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"

namespace asr {
namespace {

struct Row {
  std::vector<std::string> fields;
  std::string place;
};

std::vector<Row> split_rows(const std::string& text, const std::string& path) {
  std::vector<Row> out;
  int number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin), place = cat(path, ":", number);
    if (line.find_first_not_of(" \t\r") != std::string::npos) out.push_back({split_csv_line(line, place), place});
    begin = end + 1;
  }
  return out;
}

std::vector<double> scores_of(const Row& row, const std::vector<std::string>& tasks, bool may_be_empty) {
  check(row.fields.size() == tasks.size() + 1, row.place, ": has ", row.fields.size() - 1,
        " scores but the header names ", tasks.size(), " tasks");
  std::vector<double> out;
  for (size_t b = 0; b < tasks.size(); ++b) {
    const auto& field = row.fields[b + 1];
    double value = std::numeric_limits<double>::quiet_NaN();
    check((may_be_empty && field.empty()) || (parse_double(field, value) && value >= 0 && value <= 100), row.place,
          ": score '", printable(field), "' of task '", printable(tasks[b]), "' is not a number in 0..100");
    out.push_back(value);
  }
  return out;
}

}  // namespace

ScoreMatrix parse_joint_csv(const std::string& text, const std::string& path) {
  const auto rows = split_rows(text, path);
  check(rows.size() >= 2 && rows[0].fields.size() >= 2, path,
        ": needs a header of task names and a row of final scores");
  ScoreMatrix matrix;
  matrix.tasks.assign(rows[0].fields.begin() + 1, rows[0].fields.end());
  if (rows[1].fields[0] == "0") matrix.zero_shot = scores_of(rows[1], matrix.tasks, true);
  check(rows.back().fields[0] != "0", path, ": has no row of final scores");
  matrix.rows = {scores_of(rows.back(), matrix.tasks, false)};
  return matrix;
}

}  // namespace asr
