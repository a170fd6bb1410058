// Small multiples: one panel a skill, one line a method, accuracy on all seen validation samples of that skill.
#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

// Stages of different orders teach different tasks, so only runs of one order are averaged: the lowest.
Series course_of(const Group& group, const std::string& skill, int style) {
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
  out.name = group.label, out.style = style, out.markers = true;
  for (size_t a = 0; a < stages.size(); ++a)
    out.x.push_back(static_cast<double>(a + 1)), out.y.push_back(spread_of(stages[a]).mean);
  return out;
}

}  // namespace

std::string figure_skill_accuracy(const ComparisonTable& table) {
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
  std::string out = legend(names) + "<div class=\"grid small\">\n";
  for (const auto& skill : skills) {
    Chart chart;
    chart.title = "Accuracy of skill " + skill + " after every stage";
    chart.width = 210, chart.height = 120, chart.largest = 300, chart.low = 0, chart.high = 100;
    chart.whole_steps = true;
    for (const auto& [group, style] : styled_groups(table))
      if (!group->joint) chart.series.push_back(course_of(*group, skill, style));
    out += "<figure><figcaption>" + escaped(skill) + "</figcaption>" + draw(chart) + "</figure>\n";
  }
  out +=
      "</div>\n<p class=\"note\">Accuracy (0 to 100) on all seen validation samples of the skill, after every stage; "
      "mean over runs.";
  return out + (orders ? " Only the lowest order of each label is averaged." : "") + "</p>\n";
}

}  // namespace asr
