#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/svg.h"

namespace asr {
namespace {

struct Frame {
  double left, top, right, bottom;
  Scale x, y;
};

void widen(double value, double& low, double& high) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

std::vector<double> y_ticks(const Chart& chart, double low, double high) {
  return nice_ticks(low, high, chart.height < 160 ? 2 : 5);
}

Frame frame_of(const Chart& chart) {
  double x_low = INFINITY, x_high = -INFINITY, low = INFINITY, high = -INFINITY;
  for (const auto& s : chart.series) {
    for (double x : s.x) widen(x, x_low, x_high);
    for (size_t i = 0; i < s.y.size(); ++i) {
      const double half = i < s.deviation.size() && std::isfinite(s.deviation[i]) ? s.deviation[i] : 0;
      widen(s.y[i] - half, low, high);
      widen(s.y[i] + half, low, high);
    }
  }
  if (!(x_low < x_high)) {
    x_low = std::isfinite(x_low) ? x_low - 0.5 : 0;
    x_high = x_low + 1;
  }
  const auto scattered = [](const Series& series) { return !series.line; };
  if (std::any_of(chart.series.begin(), chart.series.end(), scattered)) {  // points on the frame are half points
    const double margin = 0.04 * (x_high - x_low);
    x_low -= margin;
    x_high += margin;
  }
  const double span = std::isfinite(low) ? high - low : 0;
  if (!std::isfinite(low)) {
    low = 0;
    high = 1;
  }
  if (chart.from_zero && low >= 0)
    low = 0;
  else
    low -= 0.05 * span;
  high += 0.05 * span;
  if (!(low < high)) {
    low -= chart.from_zero && low == 0 ? 0 : 0.5;
    high = low + 1;
  }
  if (chart.low < chart.high) {
    low = chart.low;
    high = chart.high;
  }
  size_t longest = 3;
  for (const double tick : y_ticks(chart, low, high)) longest = std::max(longest, tick_text(tick).size());
  Frame f{(chart.y_label.empty() ? 8.0 : 26.0) + 6.0 * static_cast<double>(longest),
          8,
          chart.width - 10,
          chart.height - (chart.x_label.empty() ? 18 : 34),
          {},
          {}};
  f.x = {x_low, x_high, f.left + 6, f.right - 2};
  f.y = {low, high, f.bottom, f.top};
  return f;
}

void draw_axes(Svg& svg, const Chart& chart, const Frame& f) {
  for (double tick : y_ticks(chart, f.y.low, f.y.high)) {
    svg.line(f.left, f.y(tick), f.right, f.y(tick), "mesh");
    svg.text(f.left - 4, f.y(tick) + 3.5, tick_text(tick), "tick end");
  }
  for (double at : chart.boundaries) svg.line(f.x(at), f.top, f.x(at), f.bottom, "boundary");
  auto ticks = nice_ticks(f.x.low, f.x.high, chart.width < 260 ? 3 : 6);
  if (chart.whole_steps)
    ticks.erase(std::remove_if(ticks.begin(), ticks.end(), [](double t) { return t != std::round(t); }), ticks.end());
  for (double tick : ticks) svg.text(f.x(tick), f.bottom + 13, tick_text(tick), "tick middle");
  svg.line(f.left, f.bottom, f.right, f.bottom, "axis");
  if (!chart.x_label.empty()) svg.text((f.left + f.right) / 2, chart.height - 5, chart.x_label, "label middle");
  const double middle = (f.top + f.bottom) / 2;
  if (!chart.y_label.empty())
    svg.text(11, middle, chart.y_label, "label middle", cat("transform=\"rotate(-90 11 ", coordinate(middle), ")\""));
}

void draw_band(Svg& svg, const Series& s, const Frame& f) {
  Points upper, lower;
  for (size_t i = 0; i < s.y.size() && i < s.deviation.size(); ++i) {
    if (!std::isfinite(s.y[i]) || !std::isfinite(s.deviation[i])) continue;
    upper.emplace_back(f.x(s.x[i]), f.y(std::min(s.y[i] + s.deviation[i], f.y.high)));
    lower.emplace_back(f.x(s.x[i]), f.y(std::max(s.y[i] - s.deviation[i], f.y.low)));
  }
  if (upper.size() < 2) return;
  upper.insert(upper.end(), lower.rbegin(), lower.rend());
  svg.polygon(upper, cat("band f", s.style % 7));
}

void draw_line(Svg& svg, const Series& s, const Frame& f) {
  Points points;
  const auto flush = [&] {
    if (points.size() > 1) svg.polyline(points, s.dashes < 0 ? series_class(s.style) : dashed_class(s.style, s.dashes));
    if (points.size() == 1 && !s.markers)  // a line of one point would not be seen
      svg.circle(points[0].first, points[0].second, 1.8, cat("mark f", s.style % 7));
    points.clear();
  };
  for (size_t i = 0; i < s.y.size(); ++i) {
    if (!std::isfinite(s.y[i])) {
      flush();
      continue;
    }
    points.emplace_back(f.x(s.x[i]), f.y(std::clamp(s.y[i], f.y.low, f.y.high)));
  }
  flush();
}

std::string tip_of(const Series& s, size_t i, const Chart& chart) {
  if (i < s.tips.size()) return s.tips[i];
  return fmt::format("{}{}{} {:.4g}: {:.4g}", s.name, s.name.empty() ? "" : ", ",
                     chart.x_label.empty() ? "at" : chart.x_label, s.x[i], s.y[i]);
}

void draw_markers(Svg& svg, const Series& s, const Chart& chart, const Frame& f) {
  if (!s.markers) return;
  for (size_t i = 0; i < s.y.size(); ++i) {
    if (!std::isfinite(s.y[i]) || !std::isfinite(s.x[i])) continue;
    svg.begin(i < s.topics.size() ? of_topic(s.topics[i]) : "");
    svg.tip(tip_of(s, i, chart));
    svg.marker(f.x(s.x[i]), f.y(std::clamp(s.y[i], f.y.low, f.y.high)), s.style, i < s.scale.size() ? s.scale[i] : 1);
    svg.end();
  }
}

}  // namespace

std::string draw(const Chart& chart) {
  const Frame frame = frame_of(chart);
  Svg svg(chart.width, chart.height, chart.title, chart.largest);
  draw_axes(svg, chart, frame);
  for (const auto& s : chart.series) {
    svg.begin(of_label(s.style));
    draw_band(svg, s, frame);
    if (s.rule && !s.y.empty()) {
      const double y = frame.y(std::clamp(s.y[0], frame.y.low, frame.y.high));
      svg.line(frame.left, y, frame.right, y, series_class(s.style) + " rule");
    } else {
      if (s.line) draw_line(svg, s, frame);
      draw_markers(svg, s, chart, frame);
    }
    svg.end();
  }
  return svg.done();
}

}  // namespace asr
