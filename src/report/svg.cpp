#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/markup.h"

namespace asr {
namespace {

constexpr int kColors = 7, kDashes = 4;

}  // namespace

std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", std::isfinite(value) ? value : 0.0);
  if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

Svg::Svg(double width, double height, const std::string& title, double largest) {
  out_ = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" style=\"max-width:{}px\">",
                     coordinate(width), coordinate(height), escaped(title), coordinate(largest));
}

void Svg::line(double x1, double y1, double x2, double y2, const std::string& css) {
  out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>", coordinate(x1), coordinate(y1),
                      coordinate(x2), coordinate(y2), css);
}

void Svg::points(const char* element, const Points& list, const std::string& css) {
  out_ += fmt::format("<{} class=\"{}\" points=\"", element, css);
  for (size_t i = 0; i < list.size(); ++i)
    out_ += (i ? " " : "") + coordinate(list[i].first) + "," + coordinate(list[i].second);
  out_ += "\"/>";
}

void Svg::polyline(const Points& list, const std::string& css) {
  points("polyline", list, css);
}

void Svg::polygon(const Points& list, const std::string& css) {
  points("polygon", list, css);
}

void Svg::rect(double x, double y, double width, double height, const std::string& attributes) {
  out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}/>", coordinate(x), coordinate(y),
                      coordinate(width), coordinate(height), attributes);
}

void Svg::text(double x, double y, const std::string& content, const std::string& css, const std::string& attributes) {
  out_ += fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\"{}{}>{}</text>", coordinate(x), coordinate(y), css,
                      attributes.empty() ? "" : " ", attributes, escaped(content));
}

void Svg::marker(double x, double y, int style) {
  const std::string css = fmt::format("mark f{}", style % kColors);
  switch (style % 5) {
    case 0:
      out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"2.6\" class=\"{}\"/>", coordinate(x), coordinate(y), css);
      return;
    case 1:
      return polygon({{x - 2.4, y - 2.4}, {x + 2.4, y - 2.4}, {x + 2.4, y + 2.4}, {x - 2.4, y + 2.4}}, css);
    case 2:
      return polygon({{x, y - 3.3}, {x + 3, y + 2.4}, {x - 3, y + 2.4}}, css);
    case 3:
      return polygon({{x, y - 3.5}, {x + 3.5, y}, {x, y + 3.5}, {x - 3.5, y}}, css);
    default:
      return polygon({{x, y + 3.3}, {x + 3, y - 2.4}, {x - 3, y - 2.4}}, css);
  }
}

std::vector<double> nice_ticks(double low, double high, int about) {
  if (!(high > low)) return {low};
  const double raw = (high - low) / std::max(1, about), power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double factor : {1, 2, 5})
    if (factor * power >= raw * 0.999) {
      step = factor * power;
      break;
    }
  std::vector<double> out;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) out.push_back(i * step);
  return out;
}

std::string tick_text(double value) {
  if (std::abs(value) < 1e-12) return "0";
  if (std::abs(value) >= 10000) return fmt::format("{:.4g}k", value / 1000);
  return fmt::format("{:.4g}", value);
}

std::string series_class(int style) {
  return fmt::format("line s{} d{}", style % kColors, style / kColors % kDashes);
}

std::string legend(const std::vector<std::pair<std::string, int>>& entries) {
  std::string out = "<p class=\"legend\">";
  for (const auto& [name, style] : entries) {
    Svg swatch(26, 10, name, 26);
    swatch.line(1, 5, 25, 5, series_class(style));
    swatch.marker(13, 5, style);
    out += "<span>" + swatch.done() + escaped(name) + "</span> ";
  }
  return out + "</p>\n";
}

}  // namespace asr
