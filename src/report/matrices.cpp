#include "report/matrices.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "report/answer.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

std::vector<std::vector<double>> rows_of_matrix(const ScoreMatrix& matrix) {
  auto out = matrix.rows;
  if (!matrix.zero_shot.empty()) out.insert(out.begin(), matrix.zero_shot);
  return out;
}

HeatMap map_of(const OrderedRuns& of, const ScoreMatrix& first, RowsOf rows_of, double highest) {
  HeatMap out;
  out.columns = first.tasks;
  out.high = highest;
  size_t a = 0;
  for (auto& values : mean_rows(of.runs, rows_of)) {
    const bool zero_shot = a == 0 && !first.zero_shot.empty();
    const int stage = static_cast<int>(a) - (first.zero_shot.empty() ? 0 : 1);
    if (zero_shot)
      out.rows.push_back({"zero-shot", std::move(values), -1});
    else if (of.runs[0]->joint())
      out.rows.push_back({"all at once", std::move(values), -1});
    else
      out.rows.push_back(
          {fmt::format("{} {}", stage + 1, first.tasks[static_cast<size_t>(stage)]), std::move(values), stage});
    ++a;
  }
  return out;
}

}  // namespace

std::vector<OrderedRuns> ordered_runs(const ComparisonTable& table, const Group& group) {
  std::map<int64_t, std::vector<const Run*>> orders;
  for (const Run* run : group.runs) orders[run->order].push_back(run);
  std::vector<OrderedRuns> out;
  for (auto& [order, runs] : orders) {
    std::string name = group.label;
    if (orders.size() > 1) name += fmt::format(", order {}", order);
    if (runs.size() > 1) name += fmt::format(", mean of {} runs", runs.size());
    out.push_back({std::move(name), table.style_of(group.label), std::move(runs)});
  }
  return out;
}

std::vector<std::vector<double>> mean_rows(const std::vector<const Run*>& runs, RowsOf rows_of) {
  std::vector<std::vector<std::vector<double>>> all;
  for (const Run* run : runs) all.push_back(rows_of(*run));
  auto out = all[0];
  for (size_t a = 0; a < out.size(); ++a)
    for (size_t b = 0; b < out[a].size(); ++b) {
      std::vector<double> values;
      for (const auto& rows : all)
        if (rows.size() == out.size()) values.push_back(rows[a][b]);
      out[a][b] = spread_of(values).mean;
    }
  return out;
}

double highest_score(const ComparisonTable& table) {
  double highest = 100;
  const auto look = [&highest](const std::vector<double>& row) {
    for (const double value : row)
      if (value > highest) highest = value;
  };
  for (const auto& group : table.groups)
    for (const Run* run : group.runs)
      for (const auto* matrix : {&run->matrix, &run->novel})
        for (const auto& row : rows_of_matrix(*matrix)) look(row);
  return highest;
}

HeatMap score_map(const OrderedRuns& of, double highest) {
  const auto rows = [](const Run& run) { return rows_of_matrix(run.matrix); };
  auto out = map_of(of, of.runs[0]->matrix, rows, highest);
  out.title = "Score matrix of " + of.name;
  return out;
}

HeatMap novel_map(const OrderedRuns& of, double highest) {
  const auto rows = [](const Run& run) { return rows_of_matrix(run.novel); };
  auto out = map_of(of, of.runs[0]->novel, rows, highest);
  out.title = "Score matrix of " + of.name + ", novel compositions";
  return out;
}

std::string heat_figure(const HeatMap& map, const OrderedRuns& of, const std::string& caption) {
  return "<figure " + of_label(of.style) + "><figcaption>" + cut_name(caption, 80) + "</figcaption>" + draw(map) +
         "</figure>\n";
}

std::string answer_matrices(const ComparisonTable& table) {
  const double highest = highest_score(table);
  const Answer answer = answer_of(table);
  std::string out;
  for (const Group* group : {answer.best, answer.baseline == answer.best ? nullptr : answer.baseline}) {
    if (!group) continue;
    const auto orders = ordered_runs(table, *group);
    out += heat_figure(score_map(orders[0], highest), orders[0], orders[0].name);
  }
  if (out.empty()) return "";
  return "<div class=\"grid wide\">\n" + out +
         "</div>\n<p class=\"note\">Row: after this stage; column: score on this task, from 0 to 100 where it is an "
         "accuracy. The task learnt last is outlined.</p>\n";
}

}  // namespace asr
