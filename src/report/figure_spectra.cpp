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

constexpr size_t kShownSpectra = 2;

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

// Left and right half of a panel.
struct SpectrumAxis {
  double left, highest;
  const char *name, *from, *to;
};

void draw_half(Svg& svg, const SpectrumAxis& axis, const std::vector<double>& values, const std::string& css) {
  const Scale x{0, std::max(1.0, static_cast<double>(values.size()) - 1), axis.left, axis.left + 78};
  const Scale y{0, axis.highest, 66, 12};
  Points points;
  for (size_t i = 0; i < values.size(); ++i) points.emplace_back(x(static_cast<double>(i)), y(values[i]));
  svg.polyline(points, css);
}

void draw_axis(Svg& svg, const SpectrumAxis& axis) {
  svg.line(axis.left - 1, 66, axis.left + 79, 66, "axis");
  svg.line(axis.left - 1, 12, axis.left - 1, 66, "mesh");
  svg.text(axis.left - 3, 15, fmt::format("{:.2g}", axis.highest), "tick end");
  svg.text(axis.left - 3, 69, "0", "tick end");
  svg.text(axis.left, 77, axis.from, "tick");
  svg.text(axis.left + 78, 77, axis.to, "tick end");
  svg.text(axis.left + 39, 88, axis.name, "tick middle");
}

std::string panel(const Course& course, const StyledGroup& of, double radial, double angular) {
  Svg svg(222, 92, "Radial and angular spectrum of skill " + course.skill + " of " + of.group->label, 320);
  const std::string solid = fmt::format("line s{}", of.style % 7);
  const SpectrumAxis left{26, radial, "radius of frequency", "0", "1"}, right{138, angular, "angle", "-180°", "180°"};
  for (const auto& axis : {left, right}) draw_axis(svg, axis);
  draw_half(svg, left, course.first.radial, "line first before");
  draw_half(svg, right, course.first.angular, "line first before");
  draw_half(svg, left, course.last.radial, solid);
  draw_half(svg, right, course.last.angular, solid);
  const std::string note =
      course.first_stage == course.last_stage
          ? fmt::format("stage {} only", course.first_stage)
          : fmt::format("stage {} → {}, drift {:.2g}", course.first_stage, course.last_stage, course.drift);
  return "<figure " + of_label(of.style) + " " + of_topic(course.skill) + "><figcaption>" +
         cut_name(of.group->label, 40) + "<br><small>" + note + "</small></figcaption>" + svg.done() + "</figure>\n";
}

// The panels of all labels for a skill.
struct SkillPanels {
  std::string skill, panels;
  double drift = 0;  // the largest of any label
};

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
  LeftOut absent;
  double radial = 1e-12, angular = 1e-12;  // one scale for all panels, so that they can be compared
  const auto groups = styled_groups(table);
  for (const auto& [group, style] : groups) {
    if (!absent.reads(group->label, [&, of = group] { all[of] = courses_of(first_run(*of)); })) continue;
    for (const auto& course : all[group].skills) {
      radial = largest(course.last.radial, largest(course.first.radial, radial));
      angular = largest(course.last.angular, largest(course.first.angular, angular));
    }
  }
  std::vector<std::string> without_prototypes;
  DataCsv data({"label", "skill", "stage", "spectrum", "bin", "value"});
  std::map<std::string, SkillPanels> skills;
  for (const auto& [group, style] : groups) {
    if (all.count(group) == 0) continue;
    if (!all[group].problem.empty()) {
      absent.add(group->label, all[group].problem);
      continue;
    }
    for (const auto& course : all[group].skills) {
      auto& of_skill = skills[course.skill];
      of_skill.skill = course.skill;
      of_skill.panels += panel(course, {group, style}, radial, angular);
      of_skill.drift = std::max(of_skill.drift, course.drift);
      add_spectra(data, group->label, course);
    }
    const Run& run = first_run(*group);
    if (run.complete && !path_exists(run.folder + "/memory.safetensors"))
      without_prototypes.push_back(shortened(group->label, 60));
  }
  std::vector<SkillPanels> ordered;
  for (auto& [skill, panels] : skills) ordered.push_back(std::move(panels));
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const SkillPanels& a, const SkillPanels& b) { return a.drift > b.drift; });
  std::vector<std::string> blocks;
  for (const auto& block : ordered)
    blocks.push_back("<div " + of_topic(block.skill) + "><h4>" + cut_name(block.skill, 60) +
                     "</h4>\n<div class=\"grid small\">\n" + block.panels + "</div></div>\n");
  std::string out =
      "<p class=\"note\">Dashed: after the first stage that saw the skill. Solid: after the last stage, on the same "
      "samples (those of the tasks that the first one saw). Left the radial spectrum, from low to high frequency, as "
      "part of the largest radius; right the angular one; both are shares of the energy. Drift: Jensen-Shannon "
      "divergence of both together, in nats; the skills that moved most come first." +
      of_which_run(table) + "</p>\n" + folded_panels(blocks, kShownSpectra, "skills", "rows");
  if (!without_prototypes.empty())
    out += missing("No prototypes were measured for " + join(without_prototypes, ", ") + " (analysis.memory: no).");
  return {out + absent.html(), data.text(), absent.unread()};
}

}  // namespace asr
