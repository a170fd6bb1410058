// Distances of single samples to the prototype of their skill, right answers against wrong ones: a pair of violins a
// label, for every stage, the last one open. A method and its ablation without spectrum stand first, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/data_csv.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/skill_steps.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr double kPlotLeft = 46, kPlotTop = 10, kPlotHeight = 210, kPlotSlot = 96;
constexpr double kHalf = 36;  // width of half a violin

// Sorted.
struct LabelDistances {
  StyledGroup of;
  std::vector<double> right, wrong;
};

// By stage; those without any distance are left out.
using StageDistances = std::map<int64_t, std::vector<LabelDistances>>;

// Whether any stage of the label has distances.
bool add_distances(const StyledGroup& of, StageDistances& out) {
  bool any = false;
  const Run& run = first_run(*of.group);
  for (const int64_t stage : analysed_stages(run)) {
    const auto analysis = read_analysis(run, stage, false);
    if (!analysis.spectra) continue;
    LabelDistances own{of, {}, {}};
    const auto& samples = analysis.spectra->samples;
    for (size_t i = 0; i < samples.distance.size() && i < samples.correct.size(); ++i)
      if (std::isfinite(samples.distance[i]))
        (samples.correct[i] >= 0.5 ? own.right : own.wrong).push_back(samples.distance[i]);
    if (own.right.empty() && own.wrong.empty()) continue;
    std::sort(own.right.begin(), own.right.end());
    std::sort(own.wrong.begin(), own.wrong.end());
    out[stage].push_back(std::move(own));
    any = true;
  }
  return any;
}

// A method with a variant whose spectral weight is 0: the two are what the paper compares.
struct SpectrumPair {
  const Group *full = nullptr, *without = nullptr;
};

SpectrumPair spectrum_pair(const std::vector<StyledGroup>& groups) {
  for (const auto& variant : groups)
    for (const auto& full : groups) {
      const Run &one = first_run(*variant.group), &other = first_run(*full.group);
      const std::string weight = one.method + ".beta";
      if (one.method == other.method && full.group->label == other.method && same_value(one.option(weight), "0") &&
          !same_value(other.option(weight), "0"))
        return {full.group, variant.group};
    }
  return {};
}

std::vector<StyledGroup> pair_first(std::vector<StyledGroup> groups, const SpectrumPair& pair) {
  const auto place = [&](const StyledGroup& of) {
    return of.group == pair.full ? 0 : of.group == pair.without ? 1 : 2;
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const StyledGroup& a, const StyledGroup& b) { return place(a) < place(b); });
  return groups;
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

struct HalfViolin {
  const std::vector<double>& sorted;
  double x = 0, side = 1;  // to the left of x: -1
  std::string css;
};

void draw_violin(Svg& svg, const Scale& y, const HalfViolin& half) {
  const auto& [sorted, x, side, css] = half;
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

std::string violins(const std::vector<LabelDistances>& labels, int64_t stage) {
  // A few samples far away would press all the others flat: the axis ends a quarter above all 95 % quantiles.
  double highest = 1e-9;
  for (const auto& label : labels)
    for (const auto* values : {&label.right, &label.wrong})
      if (!values->empty()) highest = std::max(highest, 1.25 * quantile_of(*values, 0.95));
  const double right = kPlotLeft + kPlotSlot * static_cast<double>(labels.size()), bottom = kPlotTop + kPlotHeight;
  Svg svg(right + 8, bottom + 34,
          fmt::format("Distance to the prototype of the skill after stage {}, right against wrong answers", stage),
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
    draw_violin(svg, y, {labels[i].right, x - 1.5, -1, css});
    svg.end();
    svg.begin("");
    svg.tip(distance_tip(labels[i], "wrong", labels[i].wrong));
    draw_violin(svg, y, {labels[i].wrong, x + 1.5, 1, css + " wrong"});
    svg.end();
    svg.begin("");
    svg.tip(labels[i].of.group->label);
    svg.text(x, bottom + 14, shortened(labels[i].of.group->label, 15), "tick middle");
    svg.end();
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
  StageDistances stages;
  LeftOut absent;
  const auto groups = styled_groups(table);
  const auto pair = spectrum_pair(groups);
  for (const auto& of : pair_first(groups, pair)) {
    bool any = false;
    if (absent.reads(of.group->label, [&] { any = add_distances(of, stages); }) && !any)
      absent.add(of.group->label, "its analyses have no distances to prototypes (analysis.memory: yes measures them).");
  }
  if (stages.empty()) return {absent.html(), "", absent.unread()};
  DataCsv data({"label", "stage", "answer", "samples", "lower_quartile", "median", "upper_quartile"});
  std::string out;
  for (const auto& [stage, labels] : stages) {
    const bool last = stage == stages.rbegin()->first;
    out += fmt::format("<details{}><summary>after stage {}</summary>\n", last ? " open" : "", stage) +
           violins(labels, stage) + "</details>\n";
    for (const auto& own : labels)
      for (const auto& [kind, values] : {std::make_pair("right", &own.right), std::make_pair("wrong", &own.wrong)})
        if (!values->empty())
          data.add({own.of.group->label, std::to_string(stage), kind},
                   {static_cast<double>(values->size()), quantile_of(*values, 0.25), quantile_of(*values, 0.5),
                    quantile_of(*values, 0.75)});
  }
  std::string note =
      "<p class=\"note\">Left of each pair: right answers; right, dashed: wrong ones; a bar at each median; below, how "
      "many. Mahalanobis distance, mean over dimensions; the axis ends a quarter above the 95 % quantiles, and what "
      "lies "
      "beyond is counted, not drawn. A click on a stage opens it.";
  note += pair.full ? " First the full method and its ablation without spectrum."
                    : " With a run of configs/ablation/no-spectrum.yaml, that ablation stands beside the full method.";
  return {out + note + of_which_run(table) + "</p>\n" + absent.html(), data.text(), absent.unread()};
}

}  // namespace asr
