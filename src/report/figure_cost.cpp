// What a label costs against what it reaches: extra memory (trained parameters at 2 bytes, and what is stored between
// stages) on a logarithmic axis, AP, and time a step as the area of the marker.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/chart.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

struct LabelCost {
  StyledGroup of;
  double megabytes, step_ms, ap;
};

double mean_over_runs(const Group& group, double (*of)(const Run& run)) {
  std::vector<double> values;
  for (const Run* run : group.runs) values.push_back(of(*run));
  return spread_of(values).mean;
}

LabelCost cost_of(const StyledGroup& of) {
  const auto bytes = [](const Run& run) { return 2 * run.cost.adapter_parameters + run.cost.stored_bytes; };
  return {of, mean_over_runs(*of.group, bytes) / 1e6,
          mean_over_runs(*of.group, [](const Run& run) { return run.cost.step_ms; }),
          mean_over_runs(*of.group, [](const Run& run) { return run.score("AP"); })};
}

}  // namespace

Figure figure_cost(const ComparisonTable& table) {
  std::vector<LabelCost> costs;
  double slowest = 0;
  DataCsv data({"label", "extra_megabytes", "log10_1_plus_megabytes", "step_ms", "AP"});
  for (const auto& of : styled_groups(table)) {
    const auto cost = cost_of(of);
    if (of.group->unfinished || !std::isfinite(cost.megabytes) || !std::isfinite(cost.ap)) continue;
    costs.push_back(cost);
    if (std::isfinite(cost.step_ms)) slowest = std::max(slowest, cost.step_ms);
    data.add({of.group->label}, {cost.megabytes, std::log10(1 + cost.megabytes), cost.step_ms, cost.ap});
  }
  if (costs.empty())
    return missing("Not shown: no complete run says what it stores; runs of this version do (metrics.json, 'cost').");
  Chart chart;
  chart.title = cat("Cost against AP, ", table.stream, ", ", table.backbone);
  chart.x_label = "extra memory, log10(1 + MB)";
  chart.y_label = "AP, points";
  std::vector<StyledGroup> shown;
  for (const auto& cost : costs) {
    Series series;
    series.name = cost.of.group->label;
    series.style = cost.of.style;
    series.markers = true;
    series.line = false;
    series.x = {std::log10(1 + cost.megabytes)};
    series.y = {cost.ap};
    series.scale = {std::isfinite(cost.step_ms) && slowest > 0 ? std::max(0.8, 2.4 * std::sqrt(cost.step_ms / slowest))
                                                               : 1};
    series.tips = {fmt::format("{}: AP {:.1f}, {:.2f} MB more", series.name, cost.ap, cost.megabytes)};
    if (std::isfinite(cost.step_ms)) series.tips[0] += fmt::format(", {:.1f} ms a step", cost.step_ms);
    chart.series.push_back(std::move(series));
    shown.push_back(cost.of);
  }
  return {
      legend(legend_entries(shown)) + draw(chart) +
          fmt::format("<p class=\"note\">Extra memory: trained adapter parameters at 2 bytes each and what the method "
                      "stores between stages. The area of a marker goes with the time a step takes; the largest is "
                      "{:.0f} ms. Means over runs.</p>\n",
                      slowest),
      data.text()};
}

}  // namespace asr
