#include "report/sample_difference.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/run_files.h"

namespace asr {
namespace {

// A corpus metric (CIDEr, say) is not the mean of its samples' scores; then this interval would be of another number.
std::string mismatch(const Run& run, const Predictions& predictions) {
  double sum = 0;
  for (const auto& task : predictions.tasks) {
    double total = 0;
    for (const auto& [id, score] : task) total += score;
    sum += total / static_cast<double>(task.empty() ? 1 : task.size());
  }
  const double ap = 100 * sum / static_cast<double>(predictions.tasks.size());
  if (std::abs(ap - run.score("AP")) <= 0.1) return "";
  return cat("the predictions in ", run.folder, " give AP ", ap, ", its matrix ", run.score("AP"),
             "; no interval over samples");
}

// Both runs have the same tasks; a joint run may list them in another order.
size_t position_of(const Run& run, const std::string& task) {
  const auto place = std::find(run.tasks.begin(), run.tasks.end(), task);
  check(place != run.tasks.end(), run.folder, ": has no task '", task, "'");
  return static_cast<size_t>(place - run.tasks.begin());
}

struct AnsweredRun {
  const Run& run;
  const Predictions& predictions;
};

struct Differences {
  std::vector<std::vector<double>> groups;  // in points, a list a task and pair of runs
  size_t left_out = 0;                      // questions that only one of the two answered
};

void add_differences(const AnsweredRun& mine, const AnsweredRun& theirs, Differences& out) {
  for (size_t b = 0; b < mine.run.tasks.size(); ++b) {
    const auto& own = mine.predictions.tasks[b];
    const auto& other = theirs.predictions.tasks[position_of(theirs.run, mine.run.tasks[b])];
    std::vector<double> values;
    for (const auto& [id, score] : own) {
      const auto place = other.find(id);
      if (place != other.end()) values.push_back(100 * (score - place->second));
    }
    out.left_out += own.size() + other.size() - 2 * values.size();
    out.groups.push_back(std::move(values));
  }
}

}  // namespace

SampleDifference sample_difference(const std::vector<std::pair<const Run*, const Run*>>& pairs) {
  SampleDifference out;
  Differences found;
  for (const auto& [run, base] : pairs) {
    const auto mine = read_last_predictions(*run), theirs = read_last_predictions(*base);
    for (const auto* predictions : {&mine, &theirs})
      if (!predictions->problem.empty()) return {{}, predictions->problem + "; no interval over samples"};
    for (const auto& problem : {mismatch(*run, mine), mismatch(*base, theirs)})
      if (!problem.empty()) return {{}, problem};
    add_differences({*run, mine}, {*base, theirs}, found);
  }
  out.interval = bootstrap_within(found.groups);
  if (!out.interval.known())
    out.note = "a task has no question that both runs answered; no interval over samples";
  else if (found.left_out > 0)
    out.note = cat(found.left_out, " questions that only one of the two runs answered are left out of the interval");
  return out;
}

}  // namespace asr
