// The grids and footnotes that all formats share.
#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace asr {
namespace {

// A difference of -0.001 is written 0.00, not -0.00.
double without_negative_zero(double value, double half_digit) {
  return std::abs(value) < half_digit ? 0 : value;
}

std::string range_text(const Interval& interval) {
  if (!interval.known()) return "";
  const double low = without_negative_zero(interval.low, 0.05), high = without_negative_zero(interval.high, 0.05);
  return fmt::format("{:.1f}..{:.1f}", low, high);
}

Cell score_cell(const Spread& spread) {
  if (spread.n == 0) return {"-", ""};
  const double mean = without_negative_zero(spread.mean, 0.005);
  std::string value = fmt::format("{:.2f}", mean);
  if (std::isfinite(spread.deviation)) value += fmt::format("±{:.2f}", spread.deviation);
  return {value, range_text(spread.interval)};
}

Cell difference_cell(double mean, const Interval& interval) {
  if (!std::isfinite(mean)) return {"-", ""};
  return {fmt::format("{:+.2f}{}", without_negative_zero(mean, 0.005), interval.excludes_zero() ? "*" : ""),
          range_text(interval)};
}

bool any_difference(const ComparisonTable& table, IntervalOver over) {
  return std::any_of(table.differences.begin(), table.differences.end(),
                     [&](const Difference& d) { return d.over == over; });
}

void add_run_notes(const ComparisonTable& table, std::vector<std::string>& out) {
  int most = 0, fewest_of_several = 1000;
  for (const auto& group : table.groups) {
    const int n = static_cast<int>(group.runs.size());
    most = std::max(most, n);
    if (n >= 2) fewest_of_several = std::min(fewest_of_several, n);
  }
  if (most < 2) {
    out.push_back("One run each: no spread over seeds or orders is known.");
    return;
  }
  out.push_back(cat(
      "Mean±standard deviation over n runs, with the 95 % bootstrap interval low..high of that mean over those runs (",
      kResamples, " resamples, fixed seed; none for n = 1)."));
  if (fewest_of_several < 6) out.push_back("Intervals over fewer than six runs are narrower than they should be.");
}

void add_difference_notes(const ComparisonTable& table, std::vector<std::string>& out) {
  if (table.differences.empty()) return;
  out.push_back(cat("Differences: label minus ", table.against,
                    ", over runs paired by seed and order. * = the 95 % interval shown excludes zero; no correction "
                    "for many comparisons."));
  if (any_difference(table, IntervalOver::pairs))
    out.push_back(
        "Three pairs or more: the interval is a bootstrap over the pairs. It covers other seeds and orders, "
        "not other validation samples. With three pairs a star says no more than that all three differences "
        "have the same sign, which chance alone gives one time in four.");
  if (any_difference(table, IntervalOver::samples))
    out.push_back(
        "Fewer than three pairs: for AP alone, the interval is a bootstrap over the validation samples of the "
        "last stage, within each task, paired by question_id. It covers other questions and says nothing "
        "of other seeds or orders.");
}

void add_novel_notes(const ComparisonTable& table, std::vector<std::string>& out) {
  if (!table.means)
    out.push_back(
        "AP_novel, AF_novel: over the questions on compositions of skill and concept group that training left "
        "out, in the tasks that have such questions.");
  else
    out.push_back(cat("AP_novel, AF_novel: ", table.held_out,
                      "; the other scores are those of runs without a held-out group. n "
                      "counts pairs of seed and order."));
}

}  // namespace

Grid score_grid(const Comparison& comparison, const ComparisonTable& table) {
  Grid grid{table_title(table), {"label", "n"}, {}};
  grid.header.insert(grid.header.end(), comparison.metrics.begin(), comparison.metrics.end());
  for (const auto& group : table.groups) {
    std::vector<Cell> row = {{printable(group.label) + (group.replay_free ? "" : " †"), ""},
                             {group.zero_shot ? "" : std::to_string(group.runs.size()), ""}};
    for (const auto& spread : group.scores) row.push_back(score_cell(spread));
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

Grid difference_grid(const Comparison& comparison, const ComparisonTable& table) {
  Grid grid{cat("difference to ", printable(table.against), ", over n pairs of runs"), {"label", "n"}, {}};
  grid.header.insert(grid.header.end(), comparison.metrics.begin(), comparison.metrics.end());
  for (const auto& difference : table.differences) {
    std::vector<Cell> row = {{printable(difference.label), ""}, {std::to_string(difference.pairs), ""}};
    for (size_t m = 0; m < comparison.metrics.size(); ++m)
      row.push_back(difference_cell(difference.mean[m], difference.intervals[m]));
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

std::vector<std::string> footnotes(const Comparison& comparison, const ComparisonTable& table) {
  std::vector<std::string> out;
  const auto has = [&](auto test) { return std::any_of(table.groups.begin(), table.groups.end(), test); };
  const bool forgetting = std::any_of(comparison.metrics.begin(), comparison.metrics.end(),
                                      [](const std::string& m) { return m.rfind("AF", 0) == 0; });
  out.push_back(cat("Scores in 0..100, caption scores (CIDEr) possibly above; higher is better",
                    forgetting ? ", except forgetting (AF): lower." : "."));
  if (std::any_of(comparison.metrics.begin(), comparison.metrics.end(),
                  [](const std::string& m) { return m.find("_novel") != std::string::npos; }))
    add_novel_notes(table, out);
  if (std::count(comparison.metrics.begin(), comparison.metrics.end(), "outside") > 0)
    out.push_back(
        "outside: percent of the wrong answers after the last stage that are none of the answers their task was "
        "trained on, mean over tasks.");
  add_run_notes(table, out);
  add_difference_notes(table, out);
  if (has([](const Group& g) { return g.zero_shot; }))
    out.push_back("zero-shot: the backbone before any stage, mean over all tasks.");
  if (has([](const Group& g) { return g.joint; }))
    out.push_back("joint: trained on all tasks at once; forgetting is not defined for it.");
  if (has([](const Group& g) { return !g.replay_free; }))
    out.push_back("† keeps or uses data of earlier tasks: not replay-free.");
  out.insert(out.end(), table.notes.begin(), table.notes.end());
  return out;
}

}  // namespace asr
