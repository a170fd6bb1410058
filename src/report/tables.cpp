// The grids and footnotes that all formats share.
#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "report/contrasts.h"

namespace asr {
namespace {

// Of a label that is not shown as it is.
std::string whole_name(const std::string& label) {
  return printable(label) == label ? "" : printable(label, 1000);
}

// A difference of -0.001 is written 0.00, not -0.00.
double without_negative_zero(double value, double half_digit) {
  return std::abs(value) < half_digit ? 0 : value;
}

std::string range_text(const Interval& interval) {
  if (!interval.known()) return "";
  const double low = without_negative_zero(interval.low, 0.05), high = without_negative_zero(interval.high, 0.05);
  return fmt::format("{:.1f}..{:.1f}", low, high);
}

Cell difference_cell(double mean, const Interval& interval, bool starred) {
  if (!std::isfinite(mean)) return {"-", ""};
  return {fmt::format("{:+.2f}{}", without_negative_zero(mean, 0.005), starred ? "*" : ""), range_text(interval)};
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

void add_difference_notes(const Comparison& comparison, const ComparisonTable& table, std::vector<std::string>& out) {
  if (table.differences.empty()) return;
  if (any_difference(table, IntervalOver::student)) {
    out.push_back(cat("Differences: label minus ", table.against,
                      ", over runs paired by seed and order, with 95 % intervals of Student's t over the pairs. They "
                      "are exploratory, so none has a star: better and worse say that the interval excludes zero.",
                      comparison.primary ? " What was named beforehand stands under the primary contrasts." : ""));
    return;
  }
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

Cell score_cell(const Spread& spread, int decimals) {
  if (spread.n == 0) return {"-", ""};
  const double mean = without_negative_zero(spread.mean, 0.5 * std::pow(10, -decimals));
  std::string value = fmt::format("{:.{}f}", mean, decimals);
  if (std::isfinite(spread.deviation)) value += fmt::format("±{:.{}f}", spread.deviation, decimals);
  return {value, range_text(spread.interval)};
}

Grid score_grid(const Comparison& comparison, const ComparisonTable& table) {
  Grid grid{table_title(table), {"label", "n"}, {}};
  grid.header.insert(grid.header.end(), comparison.metrics.begin(), comparison.metrics.end());
  for (const auto& group : table.groups) {
    std::vector<Cell> row = {{printable(group.label) + (group.replay_free ? "" : " †"), "", whole_name(group.label)},
                             {group.zero_shot ? "" : std::to_string(group.runs.size()), ""}};
    for (const auto& spread : group.scores) row.push_back(score_cell(spread, 2));
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

Grid difference_grid(const Comparison& comparison, const ComparisonTable& table) {
  Grid grid{cat("difference to ", printable(table.against), ", over n pairs of runs"), {"label", "n"}, {}};
  grid.header.insert(grid.header.end(), comparison.metrics.begin(), comparison.metrics.end());
  if (comparison.by_protocol) grid.header.push_back("AP, in words");
  for (const auto& difference : table.differences) {
    std::vector<Cell> row = {{printable(difference.label), "", whole_name(difference.label)},
                             {std::to_string(difference.pairs), ""}};
    for (size_t m = 0; m < comparison.metrics.size(); ++m)
      row.push_back(difference_cell(difference.mean[m], difference.intervals[m],
                                    !comparison.by_protocol && difference.intervals[m].excludes_zero()));
    if (comparison.by_protocol) row.push_back({difference.words, ""});
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

Grid settings_grid(const ComparisonTable& table) {
  Grid grid{"chosen settings and cost", {"label", "rate", "strength", "epochs", "trained", "kept", "passes"}, {}};
  if (!table.searched.empty()) grid.header.push_back("searched");
  if (!table.places.empty()) grid.header.push_back("against " + table.baseline + "'s rates");
  const auto known = [](const std::string& text) { return Cell{text.empty() ? "-" : printable(text), ""}; };
  const auto rounded = [&](double value, const char* format) {
    return known(std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "");
  };
  for (const auto& group : table.groups) {
    if (group.zero_shot) continue;
    const auto s = row_settings(group);
    std::vector<Cell> row = {known(group.label),
                             known(s.rate),
                             known(s.strength),
                             known(s.epochs),
                             rounded(s.parameters, "{:.0f}"),
                             known(std::isfinite(s.bytes) ? human_bytes(s.bytes) : ""),
                             rounded(s.passes, "{:.2f}")};
    const auto searched = table.searched.find(group.label);
    if (!table.searched.empty()) row.push_back({searched == table.searched.end() ? "" : searched->second, ""});
    const auto place = table.places.find(group.label);
    if (!table.places.empty()) row.push_back({place == table.places.end() ? "" : place->second, ""});
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

Grid contrast_grid(const Comparison& comparison) {
  const bool primary = comparison.primary;
  Grid grid{primary ? "primary contrasts, AP" : "contrasts, exploratory, AP",
            {"contrast", "settings", "agree", "difference", "p"},
            {}};
  if (primary) grid.header.push_back("p (Holm)");
  grid.header.push_back("in words");
  const auto shown_p = [](double p) {
    return Cell{std::isnan(p) ? "-" : p < 0.0001 ? "<0.0001" : fmt::format("{:.4f}", p), ""};
  };
  for (const auto& c : comparison.contrasts) {
    std::vector<Cell> row = {{printable(c.contrast.name(), 200), ""},
                             {std::to_string(c.overall.n), ""},
                             {std::to_string(c.overall.agree), ""},
                             difference_cell(c.overall.mean, c.overall.interval, c.significant()),
                             shown_p(c.overall.p)};
    if (primary) row.push_back(shown_p(c.adjusted));
    row.push_back({c.words, ""});
    grid.rows.push_back(std::move(row));
    for (const auto& s : c.settings) {
      std::vector<Cell> below = {{"· " + printable(s.setting, 200), ""},
                                 {"", ""},
                                 {"", ""},
                                 difference_cell(s.test.mean, s.test.interval, false),
                                 shown_p(s.test.p)};
      below.resize(grid.header.size());
      grid.rows.push_back(std::move(below));
    }
  }
  return grid;
}

std::vector<std::string> contrast_notes(const Comparison& comparison) {
  if (comparison.contrasts.empty()) return {};
  const bool primary = comparison.primary;
  return {cat(primary ? "Primary contrasts: the " : "Contrasts, exploratory: the ", comparison.contrasts.size(),
              " differences in AP that the protocol names. Overall: the mean of the settings' means, its error from "
              "the seeds within settings (degrees of freedom by Welch and Satterthwaite); agree: settings whose own "
              "mean has the same sign. ",
              primary ? "* = below 0.05 after Holm's correction over all of them."
                      : "They are not the primary ones (primary: no), so none has a star and p is not corrected for "
                        "many comparisons: better and worse say that the 95 % interval excludes zero."),
          "Lines below a contrast are its settings, each by Student's t over pairs of seeds."};
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
  add_difference_notes(comparison, table, out);
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
