#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "report/markup.h"

namespace asr {
namespace {

constexpr int kColors = 7, kDashes = 6;

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

void Svg::marker(double x, double y, int style, double scale) {
  const std::string css = fmt::format("mark f{}", style % kColors);
  const auto shape = [&](Points corners) {
    for (auto& [dx, dy] : corners) {
      dx = x + scale * dx;
      dy = y + scale * dy;
    }
    polygon(corners, css);
  };
  switch (style % 5) {
    case 0:
      return circle(x, y, 2.6 * scale, css);
    case 1:
      return shape({{-2.4, -2.4}, {2.4, -2.4}, {2.4, 2.4}, {-2.4, 2.4}});
    case 2:
      return shape({{0, -3.3}, {3, 2.4}, {-3, 2.4}});
    case 3:
      return shape({{0, -3.5}, {3.5, 0}, {0, 3.5}, {-3.5, 0}});
    default:
      return shape({{0, 3.3}, {3, -2.4}, {-3, -2.4}});
  }
}

void Svg::circle(double x, double y, double radius, const std::string& css) {
  out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{}\"/>", coordinate(x), coordinate(y),
                      coordinate(radius), css);
}

void Svg::picture(const Box& place, const std::string& uri, double opacity) {
  out_ +=
      fmt::format("<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\"{} href=\"{}\"/>",
                  coordinate(place.x), coordinate(place.y), coordinate(place.width), coordinate(place.height),
                  opacity < 1 ? fmt::format(" opacity=\"{:.2g}\"", opacity) : "", uri);
}

// Names are shared by all drawings of a page: equal ones are of equal pictures.
void Svg::keep(const Box& place, const std::string& uri) {
  kept_ = fmt::format("picture-{:x}", std::hash<std::string>()(uri));
  out_ += "<defs><g id=\"" + kept_ + "\">";
  picture(place, uri);
  out_ += "</g></defs>";
}

void Svg::reuse(double x, double y) {
  out_ += fmt::format("<use href=\"#{}\" x=\"{}\" y=\"{}\"/>", kept_, coordinate(x), coordinate(y));
}

void Svg::begin(const std::string& attributes) {
  out_ += attributes.empty() ? "<g>" : "<g " + attributes + ">";
}

void Svg::end() {
  out_ += "</g>";
}

void Svg::tip(const std::string& text) {
  out_ += "<title>" + escaped(text) + "</title>";
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

std::string of_label(int style) {
  return fmt::format("data-label=\"{}\"", style);
}

std::string of_topic(const std::string& name) {
  return "data-topic=\"" + escaped(name) + "\"";
}

std::string series_class(int style) {
  return dashed_class(style, style / kColors);
}

std::string dashed_class(int style, int dashes) {
  return fmt::format("line s{} d{}", style % kColors, dashes % kDashes);
}

std::string legend(const std::vector<std::pair<std::string, int>>& entries) {
  std::string out = "<p class=\"legend\">";
  for (const auto& [name, style] : entries) {
    Svg swatch(26, 10, name, 26);
    swatch.line(1, 5, 25, 5, series_class(style));
    swatch.marker(13, 5, style);
    out += "<span " + of_label(style) + " title=\"" + escaped(name) + "\">" + swatch.done() +
           escaped(shortened(name, 40)) + "</span> ";
  }
  return out + "</p>\n";
}

std::string dash_legend(const std::vector<std::string>& names) {
  std::string out = "<p class=\"legend\">";
  for (size_t i = 0; i < names.size(); ++i) {
    Svg swatch(26, 10, names[i], 26);
    swatch.line(1, 5, 25, 5, fmt::format("line first d{}", static_cast<int>(i) % kDashes));
    out += "<span>" + swatch.done() + escaped(names[i]) + "</span> ";
  }
  return out + "</p>\n";
}

}  // namespace asr
