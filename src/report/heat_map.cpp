#include "report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr double kCellWidth = 38, kCellHeight = 23;
constexpr double kLetterWidth = 6.5;  // of a wide letter of a name

struct HeatCell {
  double x, y, value;
  const HeatRow& row;
  const std::string& column;
  bool newest;
};

std::string cell_text(double value) {
  if (value >= 99.95 || value <= -9.95) return fmt::format("{:.0f}", value);
  return std::abs(value) < 0.05 ? "0" : fmt::format("{:.1f}", value);
}

void draw_cell(Svg& svg, const HeatMap& map, const HeatCell& cell) {
  if (!std::isfinite(cell.value)) return;
  const Rgb color = map.color((cell.value - map.low) / (map.high - map.low));
  svg.begin(of_topic(cell.column));
  svg.tip(fmt::format("{} {} {}: {} {:.2f}", cell.column, map.after, cell.row.name, map.unit, cell.value));
  svg.rect(cell.x + 0.5, cell.y + 0.5, kCellWidth - 1, kCellHeight - 1,
           fmt::format("fill=\"{}\"{}", hex(color), cell.newest ? " class=\"newest\"" : ""));
  svg.text(cell.x + kCellWidth / 2, cell.y + kCellHeight / 2 + 4, cell_text(cell.value), "cell",
           fmt::format("style=\"fill:{}\"", text_color_on(color)));
  svg.end();
}

void draw_column_name(Svg& svg, const std::string& name, double x, double y) {
  svg.begin(of_topic(name));
  svg.tip(name);
  svg.text(x, y, shortened(name, 14), "tick",
           fmt::format("transform=\"rotate(-50 {} {})\"", coordinate(x), coordinate(y)));
  svg.end();
}

}  // namespace

std::string draw(const HeatMap& map) {
  const auto letters = static_cast<size_t>((map.left - 6) / kLetterWidth) - 1;  // and dots for what is cut
  size_t longest = 0;
  for (const auto& name : map.columns) longest = std::max(longest, shortened(name, 14).size());
  const double top = 14 + 4.6 * static_cast<double>(longest), tilt = 4.3 * static_cast<double>(longest);
  const auto columns = static_cast<double>(map.columns.size()), rows = static_cast<double>(map.rows.size());
  const double width = map.left + kCellWidth * columns + std::max(4.0, tilt - kCellWidth / 2);
  Svg svg(width, top + kCellHeight * rows + 4, map.title, width * 1.15);
  for (size_t b = 0; b < map.columns.size(); ++b)
    draw_column_name(svg, map.columns[b], map.left + kCellWidth * (static_cast<double>(b) + 0.5), top - 5);
  for (size_t a = 0; a < map.rows.size(); ++a) {
    const auto& row = map.rows[a];
    const double y = top + kCellHeight * static_cast<double>(a);
    svg.begin("");
    svg.tip(row.name);
    svg.text(map.left - 5, y + kCellHeight / 2 + 4, shortened(row.name, letters), "tick end");
    svg.end();
    for (size_t b = 0; b < map.columns.size(); ++b)
      draw_cell(svg, map,
                {map.left + kCellWidth * static_cast<double>(b), y, row.values[b], row, map.columns[b],
                 static_cast<int>(b) == row.newest});
  }
  return "<div class=\"scroll\" tabindex=\"0\" style=\"--least:" + coordinate(width * 0.85) + "px\">" + svg.done() +
         "</div>";
}

}  // namespace asr
