#include "report/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

constexpr double kNames = 128, kRowHeight = 22, kBarWidth = 420;

Scale bar_scale(const BarChart& chart) {
  double low = INFINITY, high = -INFINITY;
  const auto look = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  if (chart.from_zero) look(0);
  for (const auto& row : chart.rows) {
    look(row.value);
    look(row.low);
    look(row.high);
    for (const double dot : row.dots) look(dot);
  }
  if (!std::isfinite(low)) return {0, 1, kNames, kBarWidth - 8};
  const double margin = std::max(0.06 * (high - low), 0.5);
  return {low - margin, high + margin, kNames, kBarWidth - 8};
}

std::string bar_tip(const BarRow& row) {
  std::string out = fmt::format("{}: {:.2f}", row.name, row.value);
  if (std::isfinite(row.low)) out += fmt::format(" ({:.2f}..{:.2f})", row.low, row.high);
  if (row.dots.size() > 1) out += fmt::format(", {} runs", row.dots.size());
  return out;
}

void draw_row(Svg& svg, const BarChart& chart, const BarRow& row, const Scale& x, double y) {
  const double middle = y + kRowHeight / 2;
  if (row.heading) {
    svg.begin("");
    svg.tip(row.name);
    svg.text(4, middle + 6, shortened(row.name, 40), "label");
    svg.end();
    return;
  }
  svg.begin(of_label(row.style));
  svg.tip(bar_tip(row));
  svg.text(kNames - 8, middle + 4, shortened(row.name, 20), "tick end");
  if (std::isfinite(row.value)) {
    const double from = x(chart.from_zero ? 0 : row.value), to = x(row.value);
    svg.rect(std::min(from, to) - (chart.from_zero ? 0 : 1.5), y + 4, std::max(3.0, std::abs(to - from)),
             kRowHeight - 8, fmt::format("class=\"bar f{}\"", row.style % 7));
  }
  if (std::isfinite(row.low)) {
    svg.line(x(row.low), middle, x(row.high), middle, "whisker");
    for (const double end : {row.low, row.high}) svg.line(x(end), middle - 3, x(end), middle + 3, "whisker");
  }
  for (const double dot : row.dots)
    if (std::isfinite(dot)) svg.marker(x(dot), middle, row.style);
  svg.end();
}

}  // namespace

std::string draw(const BarChart& chart) {
  const Scale x = bar_scale(chart);
  const double bottom = 6 + kRowHeight * static_cast<double>(chart.rows.size());
  Svg svg(kBarWidth, bottom + 34, chart.title, 560);
  for (const double tick : nice_ticks(x.low, x.high, 6)) {
    svg.line(x(tick), 4, x(tick), bottom, std::abs(tick) < 1e-9 ? "axis" : "mesh");
    svg.text(x(tick), bottom + 13, tick_text(tick), "tick middle");
  }
  for (size_t i = 0; i < chart.rows.size(); ++i)
    draw_row(svg, chart, chart.rows[i], x, 6 + kRowHeight * static_cast<double>(i));
  svg.text((x.from + x.to) / 2, bottom + 29, chart.x_label, "label middle");
  return svg.done();
}

}  // namespace asr
