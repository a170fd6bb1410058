// The score matrices of a label, averaged over seeds of one order, as heat maps: a page of them, or the two that answer
// the question.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/heat_map.h"

namespace asr {

// Runs of one label that learnt the tasks in the same order.
struct OrderedRuns {
  std::string name;  // "asr, order 1, mean of 3 runs"
  int style;
  std::vector<const Run*> runs;
};
std::vector<OrderedRuns> ordered_runs(const ComparisonTable& table, const Group& group);

// The mean over runs of what a score matrix says: a row a stage, a column a task, NaN where unseen.
using RowsOf = std::vector<std::vector<double>> (*)(const Run& run);
std::vector<std::vector<double>> mean_rows(const std::vector<const Run*>& runs, RowsOf rows_of);

double highest_score(const ComparisonTable& table);  // the top of the colours: 100, or the largest caption score
HeatMap score_map(const OrderedRuns& of, double highest);
HeatMap novel_map(const OrderedRuns& of, double highest);

// "<figure>" with its caption; hidden with its label.
std::string heat_figure(const HeatMap& map, const OrderedRuns& of, const std::string& caption);

// The best label's matrix beside the baseline's, or the one that is there.
std::string answer_matrices(const ComparisonTable& table);

}  // namespace asr
