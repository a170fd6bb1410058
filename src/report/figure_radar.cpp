// Six numbers of every skill's attention after the last stage: energy at low, middle and high frequencies, anisotropy
// over three ranges of orientations. One radar a skill, one outline a label; how well skills can be told apart, in a
// table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "metrics/diagnostics.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/page_parts.h"
#include "report/skill_steps.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr size_t kShownRadars = 4;
const char* const kSixNames[] = {"low", "middle", "high", "0–60°", "60–120°", "120–180°"};

struct LabelSummary {
  StyledGroup of{};
  std::map<std::string, std::vector<double>> skills;  // six numbers each
  double separation = kUnknown;
};

// The mean descriptor begins with the radial and the angular spectrum; anisotropy follows.
std::vector<double> summary_of(const SpectraMoments& moments) {
  const size_t radial = moments.radial.size(), angular = moments.angular.size();
  if (radial == 0 || angular == 0 || moments.mean.size() < radial + 2 * angular) return {};
  const auto from = moments.mean.begin() + static_cast<ptrdiff_t>(radial + angular);
  const auto six = six_number_summary(moments.radial, {from, from + static_cast<ptrdiff_t>(angular)});
  return {six.begin(), six.end()};
}

LabelSummary summary_of_label(const StyledGroup& of, LeftOut& absent) {
  LabelSummary out{of, {}, kUnknown};
  const Run& run = first_run(*of.group);
  const auto stages = analysed_stages(run);
  if (!stages.empty()) {
    const auto last = read_analysis(run, stages.back(), false);
    for (int64_t skill : last.spectra ? last.spectra->skills() : std::set<int64_t>()) {
      const auto numbers = summary_of(last.spectra->moments(skill, last.spectra->tasks(skill)));
      if (!numbers.empty()) out.skills[last.spectra->skill_name(skill)] = numbers;
    }
    if (last.spectra && !last.spectra->samples.descriptor.empty())
      out.separation = separation(last.spectra->samples.descriptor, last.spectra->samples.skill);
  }
  if (out.skills.empty()) absent.add(of.group->label, "its last analysis has no whole descriptors.");
  return out;
}

// Each axis runs from 0 to the largest value of any label and skill.
std::vector<double> axis_ends(const std::vector<LabelSummary>& labels) {
  std::vector<double> out(6, 1e-12);
  for (const auto& label : labels)
    for (const auto& [skill, numbers] : label.skills)
      for (size_t i = 0; i < 6; ++i) out[i] = std::max(out[i], numbers[i]);
  return out;
}

// How far the labels lie apart on a skill: the largest distance from the first one's outline.
double difference_on(const std::vector<LabelSummary>& labels, const std::string& skill,
                     const std::vector<double>& ends) {
  double out = 0;
  const std::vector<double>* first = nullptr;
  for (const auto& label : labels) {
    const auto place = label.skills.find(skill);
    if (place == label.skills.end()) continue;
    if (!first) first = &place->second;
    double sum = 0;
    for (size_t i = 0; i < 6; ++i) sum += std::pow((place->second[i] - (*first)[i]) / ends[i], 2);
    out = std::max(out, std::sqrt(sum));
  }
  return out;
}

std::pair<double, double> spoke(size_t i, double part) {
  const double angle = M_PI / 3 * static_cast<double>(i) - M_PI / 2;
  return {118 + 62 * part * std::cos(angle), 94 + 62 * part * std::sin(angle)};
}

std::string radar(const std::vector<LabelSummary>& labels, const std::string& skill, const std::vector<double>& ends) {
  Svg svg(236, 188, "Six numbers of skill " + skill, 300);
  for (const double part : {0.5, 1.0}) {
    Points ring;
    for (size_t i = 0; i <= 6; ++i) ring.push_back(spoke(i % 6, part));
    svg.polyline(ring, "mesh outline");
  }
  for (size_t i = 0; i < 6; ++i) {
    const auto [x, y] = spoke(i, 1);
    const auto [tx, ty] = spoke(i, 1.16);
    svg.line(118, 94, x, y, "mesh");
    const char* anchor = std::abs(tx - 118) < 5 ? "tick middle" : tx < 118 ? "tick end" : "tick";
    const double middle = ty + (i == 0 ? -3 : i == 3 ? 7 : 1);
    svg.text(tx, middle, kSixNames[i], anchor);
    svg.text(tx, middle + 10, fmt::format("{:.2g}", ends[i]), anchor);
  }
  for (const auto& label : labels) {
    const auto place = label.skills.find(skill);
    if (place == label.skills.end()) continue;
    const auto& n = place->second;
    Points outline;
    for (size_t i = 0; i <= 6; ++i) outline.push_back(spoke(i % 6, n[i % 6] / ends[i % 6]));
    svg.begin(of_label(label.of.style));
    svg.tip(fmt::format("{}, {}: energy {:.3g}, {:.3g}, {:.3g}; anisotropy {:.3g}, {:.3g}, {:.3g}",
                        label.of.group->label, skill, n[0], n[1], n[2], n[3], n[4], n[5]));
    svg.polyline(outline, series_class(label.of.style));
    svg.end();
  }
  return "<figure " + of_topic(skill) + "><figcaption>" + cut_name(skill, 60) + "</figcaption>" + svg.done() +
         "</figure>\n";
}

std::string separation_table(const std::vector<LabelSummary>& labels) {
  Grid grid{"how well skills can be told apart after the last stage", {"label", "skills", "separation"}, {}};
  std::vector<int> styles;
  for (const auto& label : labels) {
    grid.rows.push_back({{label.of.group->label, ""},
                         {std::to_string(label.skills.size()), ""},
                         {std::isfinite(label.separation) ? fmt::format("{:.3f}", label.separation) : "-", ""}});
    styles.push_back(label.of.style);
  }
  return html_grid(grid, styles);
}

}  // namespace

Figure figure_radar(const ComparisonTable& table) {
  LeftOut absent;
  std::vector<LabelSummary> labels;
  std::vector<StyledGroup> shown;
  DataCsv data(
      {"label", "skill", "low", "middle", "high", "anisotropy_0_60", "anisotropy_60_120", "anisotropy_120_180"});
  for (const auto& of : styled_groups(table)) {
    LabelSummary summary;
    if (!absent.reads(of.group->label, [&] { summary = summary_of_label(of, absent); })) continue;
    if (summary.skills.empty()) continue;
    for (const auto& [skill, numbers] : summary.skills) data.add({of.group->label, skill}, numbers);
    shown.push_back(of);
    labels.push_back(std::move(summary));
  }
  if (labels.empty()) return {absent.html(), "", absent.unread()};
  const auto ends = axis_ends(labels);
  std::vector<std::pair<double, std::string>> skills;
  for (const auto& [skill, numbers] : labels[0].skills) skills.emplace_back(-difference_on(labels, skill, ends), skill);
  std::sort(skills.begin(), skills.end());
  std::vector<std::string> panels;
  for (const auto& [difference, skill] : skills) panels.push_back(radar(labels, skill, ends));
  return {
      legend(legend_entries(shown)) + folded_panels(panels, kShownRadars, "skills") + separation_table(labels) +
          "<p class=\"note\">After the last stage. Up and to the right: radial energy at low, middle and high "
          "frequencies; the other three: anisotropy by orientation. An axis runs from 0 to the largest value of any "
          "label and skill. The skills on which labels differ most come first. Separation: mean distance between the "
          "means of skills, over the mean distance of samples to their own." +
          of_which_run(table) + "</p>\n" + absent.html(),
      data.text(), absent.unread()};
}

}  // namespace asr
