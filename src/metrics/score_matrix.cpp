#include "metrics/score_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"

namespace asr {
namespace {

constexpr double kEmpty = std::numeric_limits<double>::quiet_NaN();

double parse_cell(const std::string& text, const std::string& place, const std::string& task) {
  if (text.empty()) return kEmpty;
  double value = 0;
  check(parse_double(text, value), place, ": score '", printable(text), "' of task '", printable(task),
        "' is not a number; leave unseen cells empty");
  check(value >= 0 && value <= 100, place, ": score ", value, " of task '", printable(task), "' is outside 0..100");
  return value;
}

struct Line {
  std::string text, place;
};

std::vector<Line> non_empty_lines(const std::string& text, const std::string& path) {
  std::vector<Line> out;
  const size_t first = text.compare(0, 3, "\xef\xbb\xbf") == 0 ? 3 : 0;  // a byte-order mark
  int number = 1;
  for (size_t begin = first; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (!trim_field(line).empty()) out.push_back({line, cat(path, ":", number)});
    begin = end + 1;
  }
  return out;
}

std::vector<std::string> parse_tasks(const Line& header) {
  auto tasks = split_csv_line(header.text, header.place);
  check(tasks.size() >= 2, header.place, ": header needs 'stage' and at least one task name, separated by commas");
  tasks.erase(tasks.begin());
  std::set<std::string> seen;
  for (const auto& task : tasks) {
    check(!task.empty(), header.place, ": a task has no name");
    check(seen.insert(task).second, header.place, ": task '", printable(task), "' stands twice");
  }
  return tasks;
}

}  // namespace

ScoreMatrix parse_score_csv(const std::string& text, const std::string& path, std::vector<std::string>& warnings) {
  const auto lines = non_empty_lines(text, path);
  check(!lines.empty(), path, ": is empty; expected a header of task names");
  ScoreMatrix matrix;
  matrix.tasks = parse_tasks(lines[0]);
  const size_t tasks = matrix.tasks.size();
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto& place = lines[i].place;
    const auto fields = split_csv_line(lines[i].text, place);
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
      check(!seen || !std::isnan(value), place, ": score of task '", printable(matrix.tasks[b]),
            "' is missing after stage ", stage);
      if (!seen && !zero_shot && !std::isnan(value))
        warnings.push_back(cat(place, ": score of task '", printable(matrix.tasks[b]),
                               "' ignored, it is not learnt before stage ", b + 1));
      if (seen || zero_shot) row[b] = value;
    }
    if (zero_shot)
      matrix.zero_shot = row;
    else
      matrix.rows.push_back(row);
  }
  check(!matrix.rows.empty(), path, ": has no row for stage 1");
  return matrix;
}

MatrixScores score(const ScoreMatrix& matrix) {
  const int stages = matrix.stages();
  const auto& m = matrix.rows;
  MatrixScores out;
  double forgot = 0, forgot_before = 0, transfer = 0;
  for (int a = 0; a < stages; ++a) {
    double sum = 0;
    for (int b = 0; b <= a; ++b) sum += m[a][b];
    out.plasticity.push_back(m[a][a]);
    out.stability.push_back(sum / (a + 1));
    out.avg += sum / (a + 1) / stages;
    out.mft += m[a][a] / stages;
    out.ap += m[stages - 1][a] / stages;
  }
  out.interference.assign(stages, std::vector<double>(stages, kEmpty));
  for (int b = 0; b < stages; ++b) {
    double best = m[b][b], best_before = m[b][b];
    for (int a = b; a < stages; ++a) {
      best = std::max(best, m[a][b]);
      if (a + 1 < stages) best_before = std::max(best_before, m[a][b]);
    }
    for (int a = b; a < stages; ++a) out.interference[a][b] = m[a][b] - best;
    if (b + 1 == stages) continue;
    const double final_score = m[stages - 1][b];
    forgot += best - final_score, forgot_before += best_before - final_score, transfer += final_score - m[b][b];
  }
  const double others = stages > 1 ? stages - 1 : kEmpty;
  out.af_paper = forgot / others, out.af_vqacl = forgot_before / others, out.bwt = transfer / others;
  out.last = out.ap;
  return out;
}

}  // namespace asr
