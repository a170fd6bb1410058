#include "report/run_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

std::string score_text(double value) {
  return std::isnan(value) ? std::string("none") : fmt::format("{:.6g}", value);
}

}  // namespace

void take_matrix(Run& run, ScoreMatrix matrix, const std::string& path) {
  run.matrix = std::move(matrix);
  const int stages = run.matrix.stages();
  check(!run.complete || run.joint() || stages == static_cast<int>(run.tasks.size()), path, ": has ", stages, " of ",
        run.tasks.size(), " stages, yet the run is said to be complete; resume the run");
  const auto left_out = run.matrix.tasks_left_out();
  check(left_out.empty(), path, ": has no score of task '", printable(join(left_out, "', '"), 200),
        "'; evaluate the run again");
  run.scores = named_scores(run.matrix, run.joint());
}

void take_novel_matrix(Run& run, ScoreMatrix matrix, const std::string& path) {
  run.novel = std::move(matrix);
  check(!run.complete || run.novel.stages() == run.matrix.stages(), path, ": has ", run.novel.stages(),
        " stages, but the matrix of all questions ", run.matrix.stages(), "; evaluate the run again");
  run.scores.merge(novel_scores(run.novel));
}

std::string contradictions(const NamedScores& written, const Run& run, double tolerance) {
  std::vector<std::string> out;
  for (const auto& [name, value] : run.scores) {
    const auto place = written.find(name);
    if (place == written.end()) continue;  // of an older version
    const double there = place->second;
    const bool same =
        std::isnan(value) ? std::isnan(there) : std::abs(there - value) <= tolerance * std::max(1.0, std::abs(value));
    if (!same) out.push_back(cat(name, " ", score_text(there), " instead of ", score_text(value)));
  }
  return join(out, ", ");
}

}  // namespace asr
