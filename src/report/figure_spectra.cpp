// Radial and angular attention spectra of every skill: as first learnt, against after the last stage.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/folders.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/run_files.h"
#include "report/svg.h"

namespace asr {
namespace {

// A skill as first learnt and after the last stage, on the samples that both stages measured.
struct Course {
  std::string skill;
  int64_t first_stage = 0, last_stage = 0;
  SpectraMoments first, last;
};

struct Courses {
  std::vector<Course> skills;  // in the order in which they were met
  std::string problem;         // why there are none
};

Courses courses_of(const Run& run) {
  std::vector<StageAnalysis> stages;
  for (int64_t stage : analysed_stages(run)) stages.push_back(read_analysis(run, stage, false));
  if (stages.empty()) return {{}, "it has no stages/*/analysis.safetensors."};
  for (const auto& stage : stages)
    if (!stage.spectra) return {{}, "its analysis files pool all tasks, as an older version wrote them; run it again."};
  const auto& last = stages.back();
  Courses out;
  std::set<int64_t> met;
  for (const auto& stage : stages)
    for (int64_t skill : stage.spectra->skills()) {
      const auto tasks = shared_tasks(*stage.spectra, *last.spectra, skill);
      if (tasks.empty() || !met.insert(skill).second) continue;
      out.skills.push_back({stage.spectra->skill_name(skill), stage.stage, last.stage,
                            stage.spectra->moments(skill, tasks), last.spectra->moments(skill, tasks)});
    }
  return out;
}

// Jensen-Shannon divergence of spectra as stored, natural logarithm, 0 log 0 = 0.
double divergence(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < std::min(p.size(), q.size()); ++i) {
    const double m = (p[i] + q[i]) / 2;
    if (p[i] > 0) sum += p[i] * std::log(p[i] / m) / 2;
    if (q[i] > 0) sum += q[i] * std::log(q[i] / m) / 2;
  }
  return sum;
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
  const double drift =
      divergence(course.first.radial, course.last.radial) + divergence(course.first.angular, course.last.angular);
  const std::string note =
      course.first_stage == course.last_stage
          ? fmt::format("stage {} only", course.first_stage)
          : fmt::format("stage {} → {}, drift {:.2g}", course.first_stage, course.last_stage, drift);
  return "<figure><figcaption>" + escaped(course.skill) + "<br><small>" + note + "</small></figcaption>" + svg.done() +
         "</figure>\n";
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
  std::string out =
      "<p class=\"note\">Dashed: after the first stage that saw the skill. Solid: after the last stage, on the same "
      "samples (those of the tasks that the first one saw). "
      "Left the radial spectrum, from low to high frequency; right the angular one, over 180 degrees. "
      "Drift: Jensen-Shannon divergence of both together." +
      of_which_run(table) + "</p>\n";
  for (const auto& [group, style] : groups) {
    if (!all[group].problem.empty()) {
      out += missing("Not shown for " + group->label + ": " + all[group].problem);
      continue;
    }
    out += "<details open><summary>" + escaped(group->label) + "</summary><div class=\"grid small\">\n";
    for (const auto& course : all[group].skills) out += panel(course, {group, style}, radial, angular);
    out += "</div></details>\n";
    if (!path_exists(first_run(*group).folder + "/memory.safetensors"))
      out += missing("No prototypes were measured for " + group->label + " (analysis.memory: no).");
  }
  return out;
}

}  // namespace asr
