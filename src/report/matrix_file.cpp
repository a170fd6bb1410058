#include "report/matrix_file.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"
#include "io/task_names.h"

namespace asr {
namespace {

std::vector<double> joint_scores(const CsvRecord& row, const std::vector<std::string>& tasks, bool may_be_empty) {
  check(row.fields.size() == tasks.size() + 1, row.place, ": has ", row.fields.size() - 1,
        " scores but the header names ", tasks.size(), " tasks");
  std::vector<double> out;
  for (size_t b = 0; b < tasks.size(); ++b) {
    const auto& field = row.fields[b + 1];
    double value = std::numeric_limits<double>::quiet_NaN();
    check((may_be_empty && field.empty()) || (parse_double(field, value) && value >= 0), row.place, ": score '",
          printable(field), "' of task '", printable(tasks[b]), "' is not a number of at least 0");
    out.push_back(value);
  }
  return out;
}

}  // namespace

bool is_joint_csv(const std::string& text, const std::string& path) {
  const auto rows = split_csv(text, path);
  const bool zero_shot = rows.size() > 1 && rows[1].fields[0] == "0";
  if (rows.size() != (zero_shot ? 3 : 2) || rows[0].fields.size() < 3) return false;  // one stage, several tasks
  const auto& scores = rows.back().fields;
  return std::none_of(scores.begin(), scores.end(), [](const std::string& field) { return field.empty(); });
}

ScoreMatrix parse_joint_csv(const std::string& text, const std::string& path) {
  const auto rows = split_csv(text, path);
  check(rows.size() >= 2 && rows[0].fields.size() >= 2, path,
        ": needs a header of task names and a row of final scores");
  ScoreMatrix matrix;
  matrix.tasks.assign(rows[0].fields.begin() + 1, rows[0].fields.end());
  check_names(matrix.tasks, rows[0].place);
  if (rows[1].fields[0] == "0") matrix.zero_shot = joint_scores(rows[1], matrix.tasks, true);
  check(rows.back().fields[0] != "0", path, ": has no row of final scores");
  matrix.rows = {joint_scores(rows.back(), matrix.tasks, false)};
  return matrix;
}

}  // namespace asr
