// What a method carries from one stage to the next, and its cost in time.
#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

double mean_cost(const Group& group, double RunCost::*field) {
  std::vector<double> values;
  for (const Run* run : group.runs) values.push_back(run->cost.*field);
  return spread_of(values).mean;
}

// How many times as long as a step of the baseline; NaN where one of the two is not known.
double step_ratio(const ComparisonTable& table, const Group& group) {
  const Group* baseline = table.group(table.baseline);
  return baseline ? mean_cost(group, &RunCost::step_ms) / mean_cost(*baseline, &RunCost::step_ms) : NAN;
}

std::string cell(const std::string& text) {
  return "<td>" + escaped(text) + "</td>";
}

std::string row_of(const ComparisonTable& table, const Group& group, int style) {
  const auto value = [&](double RunCost::*field, auto format) {
    const double mean = mean_cost(group, field);
    return cell(std::isfinite(mean) ? format(mean) : std::string("not recorded"));
  };
  const auto count = [](double n) { return fmt::format("{:.0f}", n); };
  const double ratio = step_ratio(table, group);
  const auto step = [&](double ms) {
    return fmt::format("{:.1f} ms", ms) + (std::isfinite(ratio) ? fmt::format(" ({:.2f}x)", ratio) : "");
  };
  const auto duration = [](double s) { return human_duration(s); };
  return "<tr " + of_label(style) + "><th scope=\"row\">" + cut_name(group.label, 60) + "</th>" +
         cell(group.replay_free ? "no" : "yes: not replay-free") +
         value(&RunCost::stored_bytes, [](double bytes) { return human_bytes(bytes); }) +
         value(&RunCost::adapter_parameters, count) + value(&RunCost::step_ms, step) +
         value(&RunCost::train_seconds, duration) + value(&RunCost::eval_seconds, duration) + "</tr>\n";
}

}  // namespace

Figure figure_storage(const ComparisonTable& table) {
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">label</th><th scope=\"col\">keeps old "
      "data</th>"
      "<th scope=\"col\">stored between stages</th><th scope=\"col\">adapter parameters</th><th scope=\"col\">a "
      "step</th>"
      "<th scope=\"col\">training</th><th scope=\"col\">evaluation</th></tr></thead><tbody>\n";
  DataCsv data({"label", "keeps_old_data", "stored_bytes", "adapter_parameters", "step_ms", "step_ratio",
                "train_seconds", "eval_seconds"});
  for (const auto& [group, style] : styled_groups(table)) {
    out += row_of(table, *group, style);
    data.add({group->label, group->replay_free ? "no" : "yes"},
             {mean_cost(*group, &RunCost::stored_bytes), mean_cost(*group, &RunCost::adapter_parameters),
              mean_cost(*group, &RunCost::step_ms), step_ratio(table, *group),
              mean_cost(*group, &RunCost::train_seconds), mean_cost(*group, &RunCost::eval_seconds)});
  }
  return {
      out +
          "</tbody></table></div>\n<p class=\"note\">Means over runs. Stored bytes are what the method itself needs "
          "in the next stage, beside the adapter; <code>asr audit</code> lists them. In brackets: how many times as "
          "long "
          "as a step of " +
          escaped(table.baseline) + ".</p>\n",
      data.text()};
}

}  // namespace asr
