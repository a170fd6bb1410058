// Theorem 1 on measured samples: the drift terms of every skill from stage to stage against what its risk rose by, and
// both sides of the bound. Delta and W1 are measured; Gamma, L and epsilon, and so the bounds, are estimates and are
// marked with a tilde (docs/maths.md, "The forgetting bound").
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "base/error.h"
#include "metrics/measured_transitions.h"
#include "report/chart.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/page_parts.h"
#include "report/skill_steps.h"
#include "report/svg.h"

namespace asr {
namespace {

// The left side of the theorem and its bounds. The last is fitted on the other transitions.
constexpr size_t kSides = 4;
const char* const kSideNames[kSides] = {"measured forgetting", "bound by W1~", "bound by Δ and Γ~",
                                        "bound by W1~, fitted on the other stages"};

struct LabelTheorem {
  StyledGroup of{};
  std::vector<Transition> transitions;
  std::vector<std::array<double, kSides>> sides;  // of every transition, in points
  std::map<int64_t, SkillFit> fits;
  std::map<int64_t, std::string> skills;  // names
  std::string problem;                    // why there are no transitions
};

LabelTheorem theorem_of(const StyledGroup& of) {
  LabelTheorem out{of, {}, {}, {}, {}, {}};
  const auto analyses = read_analyses(first_run(*of.group));
  out.problem = analyses.problem;
  for (size_t i = 1; i < analyses.stages.size(); ++i) {
    const auto &before = *analyses.stages[i - 1].spectra, &after = *analyses.stages[i].spectra;
    for (const auto* file : {&before, &after})
      if (file->samples.descriptor.empty() || file->samples.correct.empty())
        return {of, {}, {}, {}, {}, "its analysis files have no single samples with descriptor and score."};
    auto found = measured_transition(before, after, variance_floor(before)).transition;
    found.old_stage = analyses.stages[i - 1].stage;
    found.new_stage = analyses.stages[i].stage;
    for (const auto& skill : found.skills) out.skills[skill.skill] = before.skill_name(skill.skill);
    if (!found.skills.empty()) out.transitions.push_back(std::move(found));
  }
  out.fits = fit_skills(out.transitions);
  for (size_t i = 0; i < out.transitions.size(); ++i) {
    const auto fitted = forgetting_bound(out.transitions[i], out.fits);
    const auto predicted = forgetting_bound(out.transitions[i], fit_skills(out.transitions, i));
    out.sides.push_back({100 * fitted.forgetting, 100 * fitted.by_w1, 100 * fitted.by_gaussian, 100 * predicted.by_w1});
  }
  if (out.problem.empty() && out.transitions.empty()) out.problem = "no two stages share samples of a skill.";
  return out;
}

struct DriftTerm {
  const char *name, *x_label;
  double (*of)(const SkillDrift& skill);
};

const DriftTerm kTerms[] = {
    {"Δ, measured", "Δ, in old deviations", [](const SkillDrift& s) { return s.delta; }},
    {"Γ~ before and after, an estimate", "Γ~ + Γ~, in old deviations",
     [](const SkillDrift& s) { return s.gamma_old + s.gamma_new; }},
    {"W1, measured", "W1, in old deviations", [](const SkillDrift& s) { return s.w1; }},
};

Series term_series(const LabelTheorem& label, const DriftTerm& term) {
  Series out;
  out.name = label.of.group->label;
  out.style = label.of.style;
  out.markers = true;
  out.line = false;
  for (const auto& t : label.transitions)
    for (const auto& s : t.skills) {
      const auto& name = label.skills.at(s.skill);
      out.x.push_back(term.of(s));
      out.y.push_back(100 * s.risk_increase());
      out.topics.push_back(name);
      out.tips.push_back(fmt::format("{}, {}, stage {} to {}: {:.3g}, risk {:+.1f} points, {} samples", out.name, name,
                                     t.old_stage, t.new_stage, out.x.back(), out.y.back(), s.samples));
    }
  return out;
}

std::string term_panels(const std::vector<LabelTheorem>& labels) {
  std::string out = "<div class=\"grid middle\">\n";
  for (const auto& term : kTerms) {
    Chart chart;
    chart.title = fmt::format("Theorem 1, terms against forgetting: {}", term.name);
    chart.x_label = term.x_label;
    chart.y_label = "risk increase, points";
    chart.width = 330;
    chart.height = 230;
    chart.largest = 480;
    for (const auto& label : labels) chart.series.push_back(term_series(label, term));
    out += cat("<figure><figcaption>", term.name, "</figcaption>", draw(chart), "</figure>\n");
  }
  return out + "</div>\n";
}

std::string side_panels(const std::vector<LabelTheorem>& labels) {
  std::string out = dash_legend({std::begin(kSideNames), std::end(kSideNames)}) + "<div class=\"grid middle\">\n";
  for (const auto& label : labels) {
    Chart chart;
    chart.title = "Both sides of Theorem 1, " + label.of.group->label;
    chart.x_label = "after stage";
    chart.y_label = "points";
    chart.width = 330;
    chart.height = 200;
    chart.largest = 480;
    chart.from_zero = chart.whole_steps = true;
    for (size_t side = 0; side < kSides; ++side) {
      Series series;
      series.name = kSideNames[side];
      series.style = label.of.style;
      series.dashes = static_cast<int>(side);
      series.markers = true;
      for (size_t i = 0; i < label.transitions.size(); ++i) {
        series.x.push_back(static_cast<double>(label.transitions[i].new_stage));
        series.y.push_back(label.sides[i][side]);
      }
      chart.series.push_back(std::move(series));
    }
    out += "<figure " + of_label(label.of.style) + "><figcaption>" + cut_name(label.of.group->label, 60) +
           "</figcaption>" + draw(chart) + "</figure>\n";
  }
  return out + "</div>\n";
}

std::string theorem_csv(const std::vector<LabelTheorem>& labels) {
  DataCsv data({"label", "skill", "from", "to", "samples", "omega", "delta", "gamma_old_estimate", "gamma_new_estimate",
                "w1", "risk_increase", "forgetting", "bound_w1_estimate", "bound_gaussian_estimate",
                "predicted_w1_estimate"});
  for (const auto& label : labels)
    for (size_t i = 0; i < label.transitions.size(); ++i) {
      const auto& t = label.transitions[i];
      const auto from = std::to_string(t.old_stage), to = std::to_string(t.new_stage);
      double samples = 0;
      for (const auto& s : t.skills) {
        const auto& fit = label.fits.at(s.skill).fit;
        samples += static_cast<double>(s.samples);
        data.add(
            {label.of.group->label, label.skills.at(s.skill), from, to},
            {static_cast<double>(s.samples), s.share, s.delta, s.gamma_old, s.gamma_new, s.w1, 100 * s.risk_increase(),
             100 * std::max(0.0, s.risk_increase()), 100 * (fit.lipschitz * s.w1 + 2 * fit.epsilon),
             100 * (fit.lipschitz * s.gaussian_drift() + 2 * fit.epsilon), kUnknown});
      }
      const auto bound = forgetting_bound(t, label.fits);
      std::vector<double> row = {samples, 1, kUnknown, kUnknown, kUnknown, kUnknown, 100 * bound.risk_increase};
      row.insert(row.end(), label.sides[i].begin(), label.sides[i].end());
      data.add({label.of.group->label, "all skills", from, to}, row);
    }
  return data.text();
}

}  // namespace

Figure figure_theorem(const ComparisonTable& table) {
  std::vector<LabelTheorem> labels;
  std::vector<StyledGroup> shown;
  LeftOut absent;
  for (const auto& of : continual_groups(table)) {
    LabelTheorem found;
    if (!absent.reads(of.group->label, [&] { found = theorem_of(of); })) continue;
    if (found.transitions.empty()) {
      absent.add(of.group->label, found.problem);
      continue;
    }
    shown.push_back(of);
    labels.push_back(std::move(found));
  }
  if (labels.empty()) return {absent.html(), "", absent.unread()};
  return {legend(legend_entries(shown)) + term_panels(labels) + side_panels(labels) +
              "<p class=\"note\">Above: a marker is a skill from one stage to the next, on the samples that both "
              "measured; risk is 100 less the score. Below: the left side of the theorem and its bounds, all skills "
              "together. ~ marks an estimate: Γ from below, L and ε by a fit. A bound fitted on these very stages "
              "holds for them by construction; the one fitted on the other stages can fail. <code>asr bound</code> "
              "prints the numbers." +
              of_which_run(table) + "</p>\n" + absent.html(),
          theorem_csv(labels), absent.unread()};
}

}  // namespace asr
