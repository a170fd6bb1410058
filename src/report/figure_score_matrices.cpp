// Score matrices as heat maps: row = after which stage, column = task. One map a label and order, mean over seeds.
#include <fmt/format.h>

#include <algorithm>

#include "report/data_csv.h"
#include "report/figures.h"
#include "report/matrices.h"

namespace asr {

Figure figure_score_matrices(const ComparisonTable& table) {
  const double highest = highest_score(table);
  DataCsv data({"label", "compositions", "after", "task", "score"});
  std::string out = fmt::format(
      "<p class=\"note\">Row: after this stage (its task was learnt last, outlined). Column: score on "
      "this task. Tasks not yet learnt are blank, and on novel compositions those that have none. The colours run from "
      "0 to {:.0f} in every map.</p>\n<div class=\"grid wide\">\n",
      highest);
  const auto add = [&](const HeatMap& map, const OrderedRuns& of, const char* kind) {
    const bool novel = std::string(kind) == "novel";
    out += heat_figure(map, of, of.name + (novel ? ", novel compositions" : ""));
    for (const auto& row : map.rows)
      for (size_t b = 0; b < row.values.size(); ++b) data.add({of.name, kind, row.name, map.columns[b]}, row.values[b]);
  };
  for (const auto& [group, style] : styled_groups(table))
    for (const auto& of : ordered_runs(table, *group)) {
      add(score_map(of, highest), of, "standard");
      const auto composes = [&](const Run* run) {
        return run->novel.stages() > 0 && run->novel.stages() == of.runs[0]->novel.stages();
      };
      if (std::all_of(of.runs.begin(), of.runs.end(), composes)) add(novel_map(of, highest), of, "novel");
    }
  return {out + "</div>\n", data.text()};
}

}  // namespace asr
