#include "metrics/score_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"
#include "io/task_names.h"

namespace asr {
namespace {

constexpr double kEmpty = std::numeric_limits<double>::quiet_NaN();

double parse_cell(const std::string& text, const std::string& place, const std::string& task) {
  if (text.empty()) return kEmpty;
  double value = 0;
  check(parse_double(text, value), place, ": score '", printable(text), "' of task '", printable(task),
        "' is not a number; leave unseen cells empty");
  check(value >= 0, place, ": score ", value, " of task '", printable(task), "' is below 0");
  return value;
}

std::vector<std::string> parse_tasks(const CsvRecord& header) {
  check(header.fields.size() >= 2, header.place,
        ": header needs 'stage' and at least one task name, separated by commas");
  const std::vector<std::string> tasks(header.fields.begin() + 1, header.fields.end());
  check_names(tasks, header.place);
  return tasks;
}

// A task that has a score must have one after every stage from its own on.
void check_whole(const ScoreMatrix& matrix, const std::vector<std::string>& places) {
  for (int a = 0; a < matrix.stages(); ++a)
    for (int b = 0; b <= a; ++b)
      check(!std::isnan(matrix.rows[a][b]) || !matrix.asked(b), places[a], ": score of task '",
            printable(matrix.tasks[b]), "' is missing after stage ", a + 1);
}

double mean_or_empty(double sum, int count) {
  return count > 0 ? sum / count : kEmpty;
}

}  // namespace

bool ScoreMatrix::asked(int b) const {
  if (b >= stages()) return true;
  if (!zero_shot.empty() && !std::isnan(zero_shot[b])) return true;
  return std::any_of(rows.begin() + b, rows.end(), [b](const auto& row) { return !std::isnan(row[b]); });
}

std::vector<std::string> ScoreMatrix::tasks_left_out() const {
  std::vector<std::string> out;
  for (int b = 0; b < stages(); ++b)
    if (!asked(b)) out.push_back(tasks[b]);
  return out;
}

ScoreMatrix parse_score_csv(const std::string& text, const std::string& path, std::vector<std::string>& warnings) {
  const auto records = split_csv(text, path);
  check(!records.empty(), path, ": is empty; expected a header of task names");
  ScoreMatrix matrix;
  matrix.tasks = parse_tasks(records[0]);
  const size_t tasks = matrix.tasks.size();
  std::vector<std::string> places;
  for (size_t i = 1; i < records.size(); ++i) {
    const auto& [fields, place] = records[i];
    check(fields.size() == tasks + 1, place, ": has ", fields.size() - 1, " scores but the header names ", tasks,
          " tasks");
    int64_t stage = 0;
    check(parse_int(fields[0], stage), place, ": first column '", printable(fields[0]), "' is not a stage number");
    const bool zero_shot = stage == 0 && i == 1;
    check(zero_shot || stage == matrix.stages() + 1, place, ": stage ", stage, " is out of order; expected ",
          matrix.stages() + 1);
    check(zero_shot || stage <= static_cast<int64_t>(tasks), place, ": more stages than tasks");
    std::vector<double> row(tasks, kEmpty);
    for (size_t b = 0; b < tasks; ++b) {
      const double value = parse_cell(fields[b + 1], place, matrix.tasks[b]);
      const bool seen = static_cast<int64_t>(b) < stage;
      if (!seen && !zero_shot && !std::isnan(value))
        warnings.push_back(cat(place, ": score of task '", printable(matrix.tasks[b]),
                               "' ignored, it is not learnt before stage ", b + 1));
      if (seen || zero_shot) row[b] = value;
    }
    if (zero_shot) {
      matrix.zero_shot = row;
      continue;
    }
    matrix.rows.push_back(row);
    places.push_back(place);
  }
  check(!matrix.rows.empty(), path, ": has no row for stage 1");
  check_whole(matrix, places);
  return matrix;
}

MatrixScores score(const ScoreMatrix& matrix) {
  const int stages = matrix.stages();
  const auto& m = matrix.rows;
  MatrixScores out;
  out.interference.assign(stages, std::vector<double>(stages, kEmpty));
  std::vector<bool> asked;
  for (int b = 0; b < stages; ++b) asked.push_back(matrix.asked(b));
  double stability = 0, learnt = 0, last = 0, forgot = 0, forgot_before = 0, transfer = 0;
  int rows = 0, columns = 0, earlier = 0;
  for (int a = 0; a < stages; ++a) {
    double sum = 0;
    int seen = 0;
    for (int b = 0; b <= a; ++b)
      if (asked[b]) {
        sum += m[a][b];
        ++seen;
      }
    out.plasticity.push_back(m[a][a]);
    out.stability.push_back(mean_or_empty(sum, seen));
    if (seen == 0) continue;
    stability += sum / seen;
    ++rows;
  }
  for (int b = 0; b < stages; ++b) {
    if (!asked[b]) continue;
    double best = m[b][b], best_before = m[b][b];
    for (int a = b; a < stages; ++a) {
      best = std::max(best, m[a][b]);
      if (a + 1 < stages) best_before = std::max(best_before, m[a][b]);
    }
    for (int a = b; a < stages; ++a) out.interference[a][b] = m[a][b] - best;
    const double final_score = m[stages - 1][b];
    learnt += m[b][b];
    last += final_score;
    ++columns;
    if (b + 1 == stages) continue;
    forgot += best - final_score;
    forgot_before += best_before - final_score;
    transfer += final_score - m[b][b];
    ++earlier;
  }
  out.ap = out.last = mean_or_empty(last, columns);
  out.mft = mean_or_empty(learnt, columns);
  out.avg = mean_or_empty(stability, rows);
  out.af_paper = mean_or_empty(forgot, earlier);
  out.af_vqacl = mean_or_empty(forgot_before, earlier);
  out.bwt = mean_or_empty(transfer, earlier);
  return out;
}

}  // namespace asr
