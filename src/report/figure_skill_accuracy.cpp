// Small multiples: one panel a skill, one line a method, accuracy on all seen validation samples of that skill.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "metrics/skill_forgetting.h"
#include "report/chart.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

// Stages of different orders teach different tasks, so only runs of one order are averaged: the lowest.
Series skill_series(const Group& group, const std::string& skill, int style) {
  std::vector<std::vector<double>> stages;
  for (const Run* run : group.runs) {
    if (run->order != group.runs[0]->order) continue;
    for (const auto& curve : run->skills)
      if (curve.name == skill)
        for (size_t a = 0; a < curve.accuracy.size(); ++a) {
          if (a == stages.size()) stages.emplace_back();
          stages[a].push_back(curve.accuracy[a]);
        }
  }
  Series out;
  out.name = group.label;
  out.style = style;
  out.markers = true;
  for (size_t a = 0; a < stages.size(); ++a) {
    out.x.push_back(static_cast<double>(a + 1));
    out.y.push_back(spread_of(stages[a]).mean);
  }
  return out;
}

// The three forms of forgetting after the last stage: means over the same runs as the curves.
std::string forgetting_table(const ComparisonTable& table, const std::vector<std::string>& skills) {
  std::string rows;
  for (const auto& [group, style] : styled_groups(table))
    for (const auto& skill : skills) {
      std::vector<double> best, step, cumulative;
      for (const Run* run : group->runs)
        for (const auto& curve : run->skills) {
          const auto forgetting = skill_forgetting(curve.accuracy);
          if (group->joint || run->order != group->runs[0]->order || curve.name != skill) continue;
          if (std::isnan(forgetting.best)) continue;
          best.push_back(forgetting.best);
          step.push_back(forgetting.step);
          cumulative.push_back(forgetting.cumulative);
        }
      if (best.empty()) continue;
      rows += "<tr " + of_label(style) + " " + of_topic(skill) + "><th scope=\"row\">" + cut_name(group->label, 60) +
              "</th><td>" + cut_name(skill, 60) + "</td>";
      for (const auto* values : {&best, &step, &cumulative})
        rows += fmt::format("<td>{:.2f}</td>", spread_of(*values).mean);
      rows += "</tr>\n";
    }
  if (rows.empty()) return "";
  return "<details><summary>Forgetting by skill</summary><div class=\"scroll\" tabindex=\"0\"><table><caption>points "
         "of accuracy lost after the last stage: against the best earlier stage, in the last step, and in all steps "
         "together</caption><thead><tr><th scope=\"col\">method</th><th scope=\"col\">skill</th><th "
         "scope=\"col\">best</th><th scope=\"col\">step</th><th scope=\"col\">cumulative</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div></details>\n";
}

}  // namespace

Figure figure_skill_accuracy(const ComparisonTable& table) {
  std::vector<std::string> skills;
  std::vector<std::pair<std::string, int>> names;
  bool orders = false;
  for (const auto& [group, style] : styled_groups(table)) {
    if (group->joint) continue;  // has no course over stages
    names.emplace_back(group->label, style);
    for (const Run* run : group->runs) {
      orders = orders || run->order != group->runs[0]->order;
      for (const auto& curve : run->skills)
        if (std::count(skills.begin(), skills.end(), curve.name) == 0) skills.push_back(curve.name);
    }
  }
  if (skills.empty()) return missing("Not shown: no metrics.json lists the accuracy of any skill.");
  DataCsv data({"label", "skill", "stage", "accuracy"});
  std::string out = legend(names) + "<div class=\"grid small\">\n";
  for (const auto& skill : skills) {
    Chart chart;
    chart.title = "Accuracy of skill " + skill + " after every stage";
    chart.width = 210;
    chart.height = 140;
    chart.x_label = "stage";
    chart.y_label = "accuracy, %";
    chart.largest = 300;
    chart.low = 0;
    chart.high = 100;
    chart.whole_steps = true;
    for (const auto& [group, style] : continual_groups(table)) {
      chart.series.push_back(skill_series(*group, skill, style));
      const auto& y = chart.series.back().y;
      for (size_t a = 0; a < y.size(); ++a) data.add({group->label, skill, std::to_string(a + 1)}, y[a]);
    }
    out += "<figure " + of_topic(skill) + "><figcaption>" + cut_name(skill, 60) + "</figcaption>" + draw(chart) +
           "</figure>\n";
  }
  out +=
      "</div>\n<p class=\"note\">Accuracy (0 to 100) on all seen validation samples of the skill, after every stage; "
      "mean over runs.";
  out += (orders ? " Only the lowest order of each label is averaged." : "");
  return {out + "</p>\n" + forgetting_table(table, skills), data.text()};
}

}  // namespace asr
