// A small writer of SVG: the figures are strings, drawn in user units and scaled by the page. Colours come from CSS
// classes, so that one drawing serves light mode, dark mode and print.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace asr {

using Points = std::vector<std::pair<double, double>>;

std::string coordinate(double value);  // one decimal, no trailing zeros

class Svg {
 public:
  // `title` is what a screen reader says; `largest` limits the shown width in pixels.
  Svg(double width, double height, const std::string& title, double largest);

  void line(double x1, double y1, double x2, double y2, const std::string& css);
  void polyline(const Points& points, const std::string& css);
  void polygon(const Points& points, const std::string& css);
  void rect(double x, double y, double width, double height, const std::string& attributes);
  void text(double x, double y, const std::string& content, const std::string& css, const std::string& attributes = "");
  void marker(double x, double y, int style, double scale = 1);  // a shape a style: colour is never the only difference
  void circle(double x, double y, double radius, const std::string& css);
  struct Box {
    double x, y, width, height;
  };
  void picture(const Box& place, const std::string& uri, double opacity = 1);  // stretched, smoothed where enlarged
  // A picture that stands in several places is written once: the one kept last, moved by x and y.
  void keep(const Box& place, const std::string& uri);
  void reuse(double x, double y);
  void begin(const std::string& attributes);  // of what follows, up to end()
  void end();
  void tip(const std::string& text);  // what pointing at the elements begun says
  std::string done() const { return out_ + "</svg>"; }

 private:
  void points(const char* element, const Points& points, const std::string& css);
  std::string out_, kept_;
};

// Maps low..high to from..to in user units.
struct Scale {
  double low, high, from, to;
  double operator()(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::vector<double> nice_ticks(double low, double high, int about);  // at 1, 2 or 5 times a power of ten
std::string tick_text(double value);

// Attributes by which the page's script finds what belongs to a label (by its style), and to a task or skill (by name).
std::string of_label(int style);
std::string of_topic(const std::string& name);

// CSS classes of the n-th series: colour, and dashes once the colours repeat.
std::string series_class(int style);
// The colour of a label, the dashes of something else.
std::string dashed_class(int style, int dashes);
// "── name" for every label, wrapping as text does.
std::string legend(const std::vector<std::pair<std::string, int>>& entries);
// The same for what dashes tell apart, in every colour.
std::string dash_legend(const std::vector<std::string>& names);

}  // namespace asr
