// Radial and angular attention spectra of every skill: as first learnt, against after the last stage.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/folders.h"
#include "base/text.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/page_parts.h"
#include "report/skill_steps.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr size_t kShownSpectra = 4;

// A skill as first learnt and after the last stage, on the samples that both stages measured.
struct Course {
  std::string skill;
  int64_t first_stage = 0, last_stage = 0;
  SpectraMoments first, last;
  double drift = 0;  // Jensen-Shannon divergence, of both spectra together
};

struct Courses {
  std::vector<Course> skills;  // those that moved most first
  std::string problem;         // why there are none
};

Courses courses_of(const Run& run) {
  const auto analyses = read_analyses(run);
  if (!analyses.problem.empty()) return {{}, analyses.problem};
  const auto& last = analyses.stages.back();
  Courses out;
  std::set<int64_t> met;
  for (const auto& stage : analyses.stages)
    for (int64_t skill : stage.spectra->skills()) {
      const auto tasks = shared_tasks(*stage.spectra, *last.spectra, skill);
      if (tasks.empty() || !met.insert(skill).second) continue;
      Course course{stage.spectra->skill_name(skill), stage.stage, last.stage, stage.spectra->moments(skill, tasks),
                    last.spectra->moments(skill, tasks)};
      course.drift = divergence_between(course.first, course.last);
      out.skills.push_back(std::move(course));
    }
  std::stable_sort(out.skills.begin(), out.skills.end(),
                   [](const Course& a, const Course& b) { return a.drift > b.drift; });
  return out;
}

void draw_half(Svg& svg, double left, const std::vector<double>& values, double highest, const std::string& css) {
  const Scale x{0, std::max(1.0, static_cast<double>(values.size()) - 1), left, left + 78}, y{0, highest, 62, 8};
  Points points;
  for (size_t i = 0; i < values.size(); ++i) points.emplace_back(x(static_cast<double>(i)), y(values[i]));
  svg.polyline(points, css);
}

std::string panel(const Course& course, const StyledGroup& of, double radial, double angular) {
  Svg svg(190, 78, "Radial and angular spectrum of skill " + course.skill + " of " + of.group->label, 280);
  const std::string solid = fmt::format("line s{}", of.style % 7);
  for (double left : {8.0, 102.0}) svg.line(left, 62, left + 80, 62, "axis");
  svg.text(48, 74, "frequency", "tick middle");
  svg.text(142, 74, "orientation", "tick middle");
  draw_half(svg, 9, course.first.radial, radial, "line first before");
  draw_half(svg, 103, course.first.angular, angular, "line first before");
  draw_half(svg, 9, course.last.radial, radial, solid);
  draw_half(svg, 103, course.last.angular, angular, solid);
  const std::string note =
      course.first_stage == course.last_stage
          ? fmt::format("stage {} only", course.first_stage)
          : fmt::format("stage {} → {}, drift {:.2g}", course.first_stage, course.last_stage, course.drift);
  return "<figure " + of_topic(course.skill) + "><figcaption>" + escaped(course.skill) + "<br><small>" + note +
         "</small></figcaption>" + svg.done() + "</figure>\n";
}

void add_spectra(DataCsv& data, const std::string& label, const Course& course) {
  const auto add = [&](int64_t stage, const char* kind, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i)
      data.add({label, course.skill, std::to_string(stage), kind, std::to_string(i)}, values[i]);
  };
  add(course.first_stage, "radial", course.first.radial);
  add(course.first_stage, "angular", course.first.angular);
  if (course.last_stage == course.first_stage) return;
  add(course.last_stage, "radial", course.last.radial);
  add(course.last_stage, "angular", course.last.angular);
}

double largest(const std::vector<double>& values, double so_far) {
  for (double value : values) so_far = std::max(so_far, value);
  return so_far;
}

}  // namespace

Figure figure_spectra(const ComparisonTable& table) {
  std::map<const Group*, Courses> all;
  double radial = 1e-12, angular = 1e-12;  // one scale for all panels, so that they can be compared
  const auto groups = styled_groups(table);
  for (const auto& [group, style] : groups) {
    all[group] = courses_of(first_run(*group));
    for (const auto& course : all[group].skills) {
      radial = largest(course.last.radial, largest(course.first.radial, radial));
      angular = largest(course.last.angular, largest(course.first.angular, angular));
    }
  }
  LeftOut absent;
  std::vector<std::string> without_prototypes;
  DataCsv data({"label", "skill", "stage", "spectrum", "bin", "value"});
  std::string out =
      "<p class=\"note\">Dashed: after the first stage that saw the skill. Solid: after the last stage, on the same "
      "samples (those of the tasks that the first one saw). "
      "Left the radial spectrum, from low to high frequency; right the angular one, over 180 degrees. "
      "Drift: Jensen-Shannon divergence of both together, in nats; the skills that moved most come first." +
      of_which_run(table) + "</p>\n";
  for (const auto& [group, style] : groups) {
    if (!all[group].problem.empty()) {
      absent.add(group->label, all[group].problem);
      continue;
    }
    std::vector<std::string> panels;
    for (const auto& course : all[group].skills) {
      panels.push_back(panel(course, {group, style}, radial, angular));
      add_spectra(data, group->label, course);
    }
    out += "<div " + of_label(style) + "><h4>" + escaped(group->label) + "</h4>\n" +
           folded_panels(panels, kShownSpectra, "skills") + "</div>\n";
    if (!path_exists(first_run(*group).folder + "/memory.safetensors")) without_prototypes.push_back(group->label);
  }
  if (!without_prototypes.empty())
    out += missing("No prototypes were measured for " + join(without_prototypes, ", ") + " (analysis.memory: no).");
  return {out + absent.html(), data.text()};
}

}  // namespace asr
