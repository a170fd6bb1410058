// Does drift go with forgetting? One point a skill and step from stage to stage, for four measures of drift, with the
// coefficients of Pearson and Spearman.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/chart.h"
#include "report/correlation.h"
#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/page_parts.h"
#include "report/skill_steps.h"
#include "report/svg.h"

namespace asr {
namespace {

struct DriftMeasure {
  const char *name, *x_label;
  double SkillStep::*value;
};

const DriftMeasure kMeasures[] = {
    {"prototype L2", "L2 of prototype means", &SkillStep::prototype},
    {"spectra, JSD", "Jensen-Shannon divergence, nats", &SkillStep::divergence},
    {"W2", "W2 of whitened descriptors", &SkillStep::w2},
    {"embedding", "L2 of mean embeddings", &SkillStep::embedding},
};

struct LabelSteps {
  StyledGroup of;
  std::vector<SkillStep> steps;
};

Series drift_series(const LabelSteps& label, const DriftMeasure& measure) {
  Series out;
  out.name = label.of.group->label;
  out.style = label.of.style;
  out.markers = true;
  out.line = false;
  for (const auto& step : label.steps) {
    if (!std::isfinite(step.*measure.value) || !std::isfinite(step.lost)) continue;
    out.x.push_back(step.*measure.value);
    out.y.push_back(step.lost);
    out.topics.push_back(step.skill);
    out.tips.push_back(fmt::format("{}, {}, stage {} to {}: {} {:.3g}, {:.1f} points lost", out.name, step.skill,
                                   step.from, step.to, measure.name, step.*measure.value, step.lost));
  }
  return out;
}

Cell coefficient_cell(double value, const Interval& interval) {
  if (!std::isfinite(value)) return {"-", ""};
  const auto rounded = [](double number) { return std::abs(number) < 0.005 ? 0 : number; };
  return {fmt::format("{:+.2f}", rounded(value)),
          interval.known() ? fmt::format("{:+.2f}..{:+.2f}", rounded(interval.low), rounded(interval.high)) : ""};
}

void add_correlation(Grid& grid, const DriftMeasure& measure, const std::string& label,
                     const std::vector<const SkillStep*>& steps) {
  PairedValues points;
  for (const auto* step : steps)
    if (std::isfinite(step->*measure.value) && std::isfinite(step->lost))
      points.emplace_back(step->*measure.value, step->lost);
  const auto c = correlation_of(points);
  grid.rows.push_back({{measure.name, ""},
                       {label, ""},
                       {std::to_string(c.n), ""},
                       coefficient_cell(c.pearson, c.pearson_interval),
                       coefficient_cell(c.spearman, c.spearman_interval)});
}

std::string correlation_table(const std::vector<LabelSteps>& labels) {
  Grid grid{"drift against points of accuracy lost in the same step, with 95 % intervals over the points",
            {"drift", "label", "points", "Pearson", "Spearman"},
            {}};
  std::vector<int> styles;
  for (const auto& measure : kMeasures) {
    std::vector<const SkillStep*> all;
    for (const auto& label : labels) {
      std::vector<const SkillStep*> own;
      for (const auto& step : label.steps) own.push_back(&step);
      all.insert(all.end(), own.begin(), own.end());
      add_correlation(grid, measure, label.of.group->label, own);
      styles.push_back(label.of.style);
    }
    if (labels.size() > 1) {
      add_correlation(grid, measure, "all labels", all);
      styles.push_back(-1);
    }
  }
  return html_grid(grid, styles);
}

}  // namespace

Figure figure_drift(const ComparisonTable& table) {
  std::vector<LabelSteps> labels;
  LeftOut absent;
  for (const auto& of : continual_groups(table)) {
    SkillSteps steps;
    if (!absent.reads(of.group->label, [&] { steps = skill_steps(first_run(*of.group)); })) continue;
    if (steps.steps.empty())
      absent.add(of.group->label, steps.problem);
    else
      labels.push_back({of, std::move(steps.steps)});
  }
  if (labels.empty()) return {absent.html(), "", absent.unread()};
  DataCsv data({"label", "skill", "from", "to", "prototype_l2", "jsd", "w2", "embedding", "fine_loss",
                "entropy_increase", "points_lost"});
  std::vector<StyledGroup> shown;
  for (const auto& label : labels) {
    shown.push_back(label.of);
    for (const auto& s : label.steps)
      data.add({label.of.group->label, s.skill, std::to_string(s.from), std::to_string(s.to)},
               {s.prototype, s.divergence, s.w2, s.embedding, s.fine_loss, s.entropy_increase, s.lost});
  }
  std::string panels;
  for (const auto& measure : kMeasures) {
    Chart chart;
    chart.title = fmt::format("Drift against forgetting: {}", measure.name);
    chart.x_label = measure.x_label;
    chart.y_label = "points of accuracy lost";
    chart.width = 330;
    chart.height = 230;
    chart.largest = 480;
    for (const auto& label : labels) chart.series.push_back(drift_series(label, measure));
    const auto empty = [](const Series& series) { return series.x.empty(); };
    if (std::all_of(chart.series.begin(), chart.series.end(), empty)) continue;
    panels += cat("<figure><figcaption>", measure.name, "</figcaption>", draw(chart), "</figure>\n");
  }
  return {legend(legend_entries(shown)) + "<div class=\"grid wide\">\n" + panels + "</div>\n" +
              correlation_table(labels) +
              "<p class=\"note\">A marker is a skill from one stage to the next, on the samples that both measured; "
              "below zero it got better." +
              of_which_run(table) + "</p>\n" + absent.html(),
          data.text(), absent.unread()};
}

}  // namespace asr
