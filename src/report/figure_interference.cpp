// What each later stage took from each task: Delta[a,b] = m[a,b] - the best score that task b ever had, after stage a.
// The upper triangle, tasks not yet learnt, stays blank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/matrices.h"

namespace asr {
namespace {

HeatMap interference_map(const OrderedRuns& of) {
  HeatMap out;
  out.title = "Interference of " + of.name;
  out.columns = of.runs[0]->tasks;
  out.color = loss_color;
  out.unit = "points against the best";
  auto rows = mean_rows(of.runs, [](const Run& run) { return score(run.matrix).interference; });
  for (size_t a = 0; a < rows.size(); ++a) {
    rows[a].resize(out.columns.size(), std::nan(""));  // an unfinished run knows nothing of tasks to come
    out.rows.push_back({fmt::format("{} {}", a + 1, out.columns[a]), rows[a], -1});
  }
  return out;
}

}  // namespace

Figure figure_interference(const ComparisonTable& table) {
  DataCsv data({"label", "after", "task", "delta"});
  std::vector<std::pair<OrderedRuns, HeatMap>> maps;
  double low = -1;  // so that rounding does not fill the colours
  for (const auto& [group, style] : continual_groups(table))
    for (const auto& of : ordered_runs(table, *group)) {
      maps.emplace_back(of, interference_map(of));
      for (const auto& row : maps.back().second.rows)
        for (const double value : row.values)
          if (std::isfinite(value)) low = std::min(low, value);
    }
  if (maps.empty()) return missing("Not shown: joint training has no stages that could interfere. Run another method.");
  std::string out = fmt::format(
      "<p class=\"note\">Row: after this stage. Column: a task's score less the best it ever had, in points. Darker: "
      "more was lost; the colours run from {:.0f} to 0 in every map.</p>\n<div class=\"grid wide\">\n",
      low);
  for (auto& [of, map] : maps) {
    map.low = low;
    map.high = 0;
    out += heat_figure(map, of, of.name);
    for (const auto& row : map.rows)
      for (size_t b = 0; b < row.values.size(); ++b) data.add({of.name, row.name, map.columns[b]}, row.values[b]);
  }
  return {out + "</div>\n", data.text()};
}

}  // namespace asr
