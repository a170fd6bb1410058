// Distances of single samples to the prototype of their skill, right answers against wrong ones: a pair of violins a
// label, after the last stage.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/skill_steps.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr double kPlotLeft = 46, kPlotTop = 10, kPlotHeight = 210, kPlotSlot = 96;
constexpr double kHalf = 36;  // width of half a violin

struct LabelDistances {
  StyledGroup of;
  int64_t stage = 0;
  std::vector<double> right, wrong;
};

LabelDistances distances_of(const StyledGroup& of) {
  LabelDistances out{of, 0, {}, {}};
  const Run& run = first_run(*of.group);
  const auto stages = analysed_stages(run);
  if (stages.empty()) return out;
  const auto analysis = read_analysis(run, stages.back(), false);
  out.stage = stages.back();
  if (!analysis.spectra) return out;
  const auto& samples = analysis.spectra->samples;
  for (size_t i = 0; i < samples.distance.size() && i < samples.correct.size(); ++i)
    if (std::isfinite(samples.distance[i]))
      (samples.correct[i] >= 0.5 ? out.right : out.wrong).push_back(samples.distance[i]);
  std::sort(out.right.begin(), out.right.end());
  std::sort(out.wrong.begin(), out.wrong.end());
  return out;
}

double quantile_of(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Silverman's width; samples that are all equal get a narrow one.
double kernel_width(const std::vector<double>& sorted) {
  const Spread spread = spread_of(sorted);
  const double range = (quantile_of(sorted, 0.75) - quantile_of(sorted, 0.25)) / 1.34;
  double scale = std::isfinite(spread.deviation) ? spread.deviation : 0;
  if (range > 0) scale = std::min(scale, range);
  return std::max({1e-9, 0.01 * std::abs(spread.mean), 0.9 * scale * std::pow(spread.n, -0.2)});
}

// Half a violin to one side of `x`: `side` is -1 or 1.
void draw_violin(Svg& svg, const std::vector<double>& sorted, double x, double side, const Scale& y,
                 const std::string& css) {
  if (sorted.empty()) return;
  const double width = kernel_width(sorted);
  const double from = sorted.front() - 2 * width, to = std::min(sorted.back() + 2 * width, y.high);
  std::vector<double> density;
  double highest = 1e-12;
  for (int i = 0; i <= 60; ++i) {
    const double at = from + i / 60.0 * (to - from);
    double sum = 0;
    for (const double value : sorted) sum += std::exp(-0.5 * (at - value) * (at - value) / (width * width));
    density.push_back(sum);
    highest = std::max(highest, sum);
  }
  Points outline = {{x, y(std::max(0.0, from))}};
  for (int i = 0; i <= 60; ++i)
    outline.emplace_back(x + side * kHalf * density[static_cast<size_t>(i)] / highest,
                         y(std::max(0.0, from + i / 60.0 * (to - from))));
  outline.emplace_back(x, y(to));
  svg.polygon(outline, css);
  const double middle = y(quantile_of(sorted, 0.5));
  svg.line(x, middle, x + side * kHalf * 0.8, middle, "whisker");
}

std::string distance_tip(const LabelDistances& of, const char* kind, const std::vector<double>& sorted) {
  if (sorted.empty()) return fmt::format("{}: no {} answers measured", of.of.group->label, kind);
  return fmt::format("{}, {} answers: {} samples, median {:.3g}, quartiles {:.3g} and {:.3g}", of.of.group->label, kind,
                     sorted.size(), quantile_of(sorted, 0.5), quantile_of(sorted, 0.25), quantile_of(sorted, 0.75));
}

std::string violins(const std::vector<LabelDistances>& labels) {
  // A few samples far away would press all the others flat: the axis ends a quarter above all 95 % quantiles.
  double highest = 1e-9;
  for (const auto& label : labels)
    for (const auto* values : {&label.right, &label.wrong})
      if (!values->empty()) highest = std::max(highest, 1.25 * quantile_of(*values, 0.95));
  const double right = kPlotLeft + kPlotSlot * static_cast<double>(labels.size()), bottom = kPlotTop + kPlotHeight;
  Svg svg(right + 8, bottom + 34, "Distance to the prototype of the skill, right against wrong answers",
          (right + 8) * 1.2);
  const Scale y{0, highest, bottom, kPlotTop};
  for (const double tick : nice_ticks(0, highest, 5)) {
    svg.line(kPlotLeft, y(tick), right, y(tick), "mesh");
    svg.text(kPlotLeft - 4, y(tick) + 3.5, tick_text(tick), "tick end");
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    const double x = kPlotLeft + kPlotSlot * (static_cast<double>(i) + 0.5);
    const auto css = fmt::format("violin s{0} f{0}", labels[i].of.style % 7);
    svg.begin(of_label(labels[i].of.style));
    svg.begin("");
    svg.tip(distance_tip(labels[i], "right", labels[i].right));
    draw_violin(svg, labels[i].right, x - 1.5, -1, y, css);
    svg.end();
    svg.begin("");
    svg.tip(distance_tip(labels[i], "wrong", labels[i].wrong));
    draw_violin(svg, labels[i].wrong, x + 1.5, 1, y, css + " wrong");
    svg.end();
    svg.text(x, bottom + 14, shortened(labels[i].of.group->label, 14), "tick middle");
    svg.text(x, bottom + 27, fmt::format("{} | {}", labels[i].right.size(), labels[i].wrong.size()), "tick middle");
    svg.end();
  }
  svg.line(kPlotLeft, bottom, right, bottom, "axis");
  svg.text(11, kPlotTop + kPlotHeight / 2, "distance, mean over dimensions", "label middle",
           fmt::format("transform=\"rotate(-90 11 {})\"", coordinate(kPlotTop + kPlotHeight / 2)));
  return "<div class=\"scroll\" tabindex=\"0\">" + svg.done() + "</div>\n";
}

}  // namespace

Figure figure_distances(const ComparisonTable& table) {
  std::vector<LabelDistances> labels;
  std::string absent;
  DataCsv data({"label", "stage", "answer", "samples", "lower_quartile", "median", "upper_quartile"});
  for (const auto& of : styled_groups(table)) {
    labels.push_back(distances_of(of));
    const auto& own = labels.back();
    if (own.right.empty() && own.wrong.empty()) {
      absent += missing("Not shown for " + of.group->label +
                        ": its last analysis has no distances to prototypes (analysis.memory: yes measures them).");
      labels.pop_back();
      continue;
    }
    for (const auto& [kind, values] : {std::make_pair("right", &own.right), std::make_pair("wrong", &own.wrong)})
      if (!values->empty())
        data.add({of.group->label, std::to_string(own.stage), kind},
                 {static_cast<double>(values->size()), quantile_of(*values, 0.25), quantile_of(*values, 0.5),
                  quantile_of(*values, 0.75)});
  }
  if (labels.empty()) return absent;
  return {violins(labels) +
              "<p class=\"note\">Left of each pair: right answers; right, dashed: wrong ones; a bar at each median; "
              "below, how many. Mahalanobis distance, after the last stage; the axis ends a quarter above the 95 % "
              "quantiles, and what lies beyond is counted, not drawn." +
              of_which_run(table) + "</p>\n" + absent,
          data.text()};
}

}  // namespace asr
