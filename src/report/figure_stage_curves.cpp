// After every stage, the mean score over the tasks seen so far: one line a method, with a band over its runs.
#include <cmath>

#include "report/chart.h"
#include "report/figures.h"
#include "report/svg.h"

namespace asr {
namespace {

Series course_of(const Group& group, int style) {
  Series out;
  out.name = group.label;
  out.style = style;
  out.markers = true;
  const int stages = group.runs[0]->matrix.stages();
  for (int a = 0; a < stages; ++a) {
    std::vector<double> values;
    for (const Run* run : group.runs) values.push_back(score(run->matrix).stability[a]);
    const Spread spread = spread_of(values);
    out.x.push_back(a + 1);
    out.y.push_back(spread.mean);
    out.deviation.push_back(spread.deviation);
  }
  return out;
}

}  // namespace

std::string figure_stage_curves(const ComparisonTable& table) {
  Chart chart;
  chart.title = "Mean score over the tasks seen so far, after every stage";
  chart.x_label = "stage";
  chart.y_label = "score";
  chart.whole_steps = true;
  std::vector<std::pair<std::string, int>> names;
  bool several = false, joint = false;
  for (const auto& [group, style] : styled_groups(table)) {
    names.emplace_back(group->label, style);
    several = several || group->runs.size() > 1;
    if (!group->joint) {
      chart.series.push_back(course_of(*group, style));
      continue;
    }
    double sum = 0;
    for (const Run* run : group->runs) sum += run->score("AP");
    Series level;
    level.style = style;
    level.rule = joint = true;
    level.y = {sum / static_cast<double>(group->runs.size())};
    chart.series.push_back(level);
  }
  std::string note = "<p class=\"note\">";
  if (several) note += "Line: mean over runs; band: one standard deviation. ";
  if (joint) note += "The dotted level is the final score of joint training, on all tasks. ";
  return legend(names) + draw(chart) + note + "</p>\n";
}

}  // namespace asr
