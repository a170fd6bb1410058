// After every stage: what the newest task scores (plasticity m[a,a]), the mean over the tasks seen (stability, L_a),
// and its mean over the stages so far (A_a). One line a label, with a band over its runs.
#include <cmath>

#include "report/chart.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

std::vector<double> plasticity_of(const ScoreMatrix& matrix) {
  return score(matrix).plasticity;
}

std::vector<double> stability_of(const ScoreMatrix& matrix) {
  return score(matrix).stability;
}

std::vector<double> running_mean_of(const ScoreMatrix& matrix) {
  auto out = score(matrix).stability;
  double sum = 0;
  for (size_t a = 0; a < out.size(); ++a) {
    sum += out[a];
    out[a] = sum / static_cast<double>(a + 1);
  }
  return out;
}

struct Dynamic {
  const char *name, *title, *y_label;
  std::vector<double> (*of)(const ScoreMatrix& matrix);
};

const Dynamic kDynamics[] = {
    {"plasticity", "Plasticity: the task just learnt, m[a,a]", "score, points", plasticity_of},
    {"stability", "Stability: mean over the tasks seen, L_a", "score, points", stability_of},
    {"running mean", "Mean of L up to this stage, A_a", "score, points", running_mean_of},
};

Series dynamic_series(const StyledGroup& of, const Dynamic& dynamic) {
  Series out;
  out.name = of.group->label;
  out.style = of.style;
  out.markers = true;
  std::vector<std::vector<double>> stages;
  for (const Run* run : of.group->runs) {
    const auto values = dynamic.of(run->matrix);
    stages.resize(std::max(stages.size(), values.size()));
    for (size_t a = 0; a < values.size(); ++a) stages[a].push_back(values[a]);
  }
  for (size_t a = 0; a < stages.size(); ++a) {
    const Spread spread = spread_of(stages[a]);
    out.x.push_back(static_cast<double>(a + 1));
    out.y.push_back(spread.mean);
    out.deviation.push_back(spread.deviation);
  }
  return out;
}

Series level_of(const StyledGroup& of) {
  std::vector<double> values;
  for (const Run* run : of.group->runs) values.push_back(run->score("AP"));
  Series out;
  out.name = of.group->label;
  out.style = of.style;
  out.rule = true;
  out.y = {spread_of(values).mean};
  return out;
}

}  // namespace

Figure figure_stage_curves(const ComparisonTable& table) {
  const auto groups = styled_groups(table);
  DataCsv data({"label", "dynamic", "stage", "mean", "deviation"});
  bool several = false, joint = false;
  std::string panels;
  for (const auto& dynamic : kDynamics) {
    Chart chart;
    chart.title = dynamic.title;
    chart.x_label = "stage";
    chart.y_label = dynamic.y_label;
    chart.whole_steps = true;
    chart.width = 330;
    chart.height = 230;
    chart.largest = 480;
    for (const auto& of : groups) {
      several = several || of.group->runs.size() > 1;
      joint = joint || of.group->joint;
      chart.series.push_back(of.group->joint ? level_of(of) : dynamic_series(of, dynamic));
      const auto& series = chart.series.back();
      for (size_t a = 0; !series.rule && a < series.y.size(); ++a)
        data.add({of.group->label, dynamic.name, std::to_string(a + 1)}, {series.y[a], series.deviation[a]});
    }
    panels += "<figure><figcaption>" + escaped(dynamic.title) + "</figcaption>" + draw(chart) + "</figure>\n";
  }
  std::string note = "<p class=\"note\">";
  if (several) note += "Line: mean over runs; band: one standard deviation. ";
  if (joint) note += "The dotted level is the final score of joint training, on all tasks. ";
  return {legend(legend_entries(groups)) + "<div class=\"grid middle\">\n" + panels + "</div>\n" + note + "</p>\n",
          data.text()};
}

}  // namespace asr
