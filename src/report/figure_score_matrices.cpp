// Score matrices as heat maps: row = after which stage, column = task. One map a label and order, mean over seeds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "report/colors.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr double kCellWidth = 38, kCellHeight = 23, kLeft = 84;

struct HeatRow {
  std::string name;
  std::vector<double> values;
  int newest;  // column just learnt, or -1
};

std::vector<double> mean_row(const std::vector<std::vector<double>>& rows) {
  std::vector<double> out(rows[0].size(), NAN);
  for (size_t b = 0; b < out.size(); ++b) {
    std::vector<double> values;
    for (const auto& row : rows) values.push_back(row[b]);
    out[b] = spread_of(values).mean;
  }
  return out;
}

using MatrixOf = ScoreMatrix Run::*;  // the standard matrix, or that of novel compositions

std::vector<HeatRow> heat_rows(const std::vector<const Run*>& runs, MatrixOf which) {
  std::vector<HeatRow> out;
  std::vector<std::vector<double>> rows;
  for (const Run* run : runs)
    if (!(run->*which).zero_shot.empty()) rows.push_back((run->*which).zero_shot);
  if (!rows.empty()) out.push_back({"zero-shot", mean_row(rows), -1});
  for (int a = 0; a < (runs[0]->*which).stages(); ++a) {
    rows.clear();
    for (const Run* run : runs) rows.push_back((run->*which).rows[a]);
    if (runs[0]->joint())
      out.push_back({"all at once", mean_row(rows), -1});
    else
      out.push_back({fmt::format("{} {}", a + 1, runs[0]->tasks[a]), mean_row(rows), a});
  }
  return out;
}

// The top of the colours: 100, or the largest caption score above it.
double highest_score(const ComparisonTable& table) {
  double highest = 100;
  const auto look = [&highest](const std::vector<double>& row) {
    for (const double value : row)
      if (value > highest) highest = value;
  };
  for (const auto& group : table.groups)
    for (const Run* run : group.runs)
      for (const auto* matrix : {&run->matrix, &run->novel}) {
        look(matrix->zero_shot);
        for (const auto& row : matrix->rows) look(row);
      }
  return highest;
}

struct HeatCell {
  double x, y, value;
  bool newest;  // the task that was learnt last
};

void draw_cell(Svg& svg, const HeatCell& cell, double highest) {
  if (!std::isfinite(cell.value)) return;
  const Rgb color = cell_color(cell.value / highest);
  svg.rect(cell.x + 0.5, cell.y + 0.5, kCellWidth - 1, kCellHeight - 1,
           fmt::format("fill=\"{}\"{}", hex(color), cell.newest ? " class=\"newest\"" : ""));
  const bool full = cell.value >= 99.95;
  const std::string text = full ? fmt::format("{:.0f}", cell.value) : fmt::format("{:.1f}", cell.value);
  svg.text(cell.x + kCellWidth / 2, cell.y + kCellHeight / 2 + 4, text, "cell",
           fmt::format("style=\"fill:{}\"", text_color_on(color)));
}

std::string heat_map(const std::vector<const Run*>& runs, MatrixOf which, const std::string& name, double highest) {
  const auto rows = heat_rows(runs, which);
  const auto& tasks = runs[0]->tasks;
  size_t longest = 0;
  for (const auto& task : tasks) longest = std::max(longest, shortened(task, 14).size());
  const double top = 14 + 4.6 * static_cast<double>(longest), tilt = 3.6 * static_cast<double>(longest);
  const double width = kLeft + kCellWidth * static_cast<double>(tasks.size()) + std::max(4.0, tilt - kCellWidth / 2);
  Svg svg(width, top + kCellHeight * static_cast<double>(rows.size()) + 4, "Score matrix of " + name, width * 1.15);
  for (size_t b = 0; b < tasks.size(); ++b) {
    const double x = kLeft + kCellWidth * (static_cast<double>(b) + 0.5);
    svg.text(x, top - 5, shortened(tasks[b], 14), "tick",
             fmt::format("transform=\"rotate(-50 {} {})\"", coordinate(x), coordinate(top - 5)));
  }
  for (size_t a = 0; a < rows.size(); ++a) {
    const double y = top + kCellHeight * static_cast<double>(a);
    svg.text(kLeft - 5, y + kCellHeight / 2 + 4, shortened(rows[a].name, 13), "tick end");
    for (size_t b = 0; b < tasks.size(); ++b)
      draw_cell(
          svg,
          {kLeft + kCellWidth * static_cast<double>(b), y, rows[a].values[b], static_cast<int>(b) == rows[a].newest},
          highest);
  }
  return "<div class=\"scroll\" tabindex=\"0\" style=\"--least:" + coordinate(width * 0.85) + "px\">" + svg.done() +
         "</div>";
}

}  // namespace

std::string figure_score_matrices(const ComparisonTable& table) {
  const double highest = highest_score(table);
  std::string out = fmt::format(
      "<p class=\"note\">Row: after this stage (its task was learnt last, outlined). Column: score on "
      "this task. Tasks not yet learnt are blank, and on novel compositions those that have none. The colours run from "
      "0 to {:.0f} in every map.</p>\n<div class=\"grid wide\">\n",
      highest);
  for (const auto& [group, style] : styled_groups(table)) {
    std::map<int64_t, std::vector<const Run*>> orders;
    for (const Run* run : group->runs) orders[run->order].push_back(run);
    for (const auto& [order, runs] : orders) {
      std::string name = group->label;
      if (orders.size() > 1) name += fmt::format(", order {}", order);
      if (runs.size() > 1) name += fmt::format(", mean of {} runs", runs.size());
      const auto add = [&, &members = runs](MatrixOf which, const std::string& caption) {
        out += "<figure><figcaption>" + escaped(caption) + "</figcaption>" +
               heat_map(members, which, caption, highest) + "</figure>\n";
      };
      add(&Run::matrix, name);
      const auto composes = [&members = runs](const Run* run) {
        return run->novel.stages() > 0 && run->novel.stages() == members[0]->novel.stages();
      };
      if (std::all_of(runs.begin(), runs.end(), composes)) add(&Run::novel, name + ", novel compositions");
    }
  }
  return out + "</div>\n";
}

}  // namespace asr
