#include "report/figure_files.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/error.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/page.h"
#include "report/svg.h"

namespace asr {
namespace {

std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before) + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

std::string file_name(const std::string& title) {
  std::string out;
  for (const char c : title) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte))
      out += static_cast<char>(std::tolower(byte));
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.substr(0, 100);
}

// Labels by the number that marks what belongs to them.
using LabelNames = std::map<int, std::string>;

LabelNames names_by_style(const ComparisonTable& table) {
  LabelNames out;
  for (const auto& [label, style] : table.styles) out[style] = label;
  return out;
}

// What the page's legend says, below a drawing of this width: those labels that it has and does not name itself.
struct DrawnLegend {
  std::string elements;
  double height = 0;
};

DrawnLegend legend_below(const std::string& drawing, const LabelNames& names, double width, double top) {
  constexpr double kRow = 16, kLetter = 6.2, kSwatch = 34;
  Svg svg(width, 0, "", width);
  const size_t skipped = svg.done().size() - std::string("</svg>").size();
  double x = 4, y = top + kRow / 2;
  bool any = false;
  for (const auto& [style, name] : names) {
    const auto shown = shortened(name, 30);
    if (drawing.find(of_label(style)) == std::string::npos) continue;
    if (drawing.find(">" + escaped(shown) + "<") != std::string::npos) continue;
    const double wide = kSwatch + kLetter * static_cast<double>(shown.size()) + 12;
    if (any && x + wide > width) {
      x = 4;
      y += kRow;
    }
    svg.line(x, y, x + 24, y, series_class(style));
    svg.marker(x + 12, y, style);
    svg.text(x + 29, y + 4, shown, "label");
    x += wide;
    any = true;
  }
  const std::string elements = svg.done();
  return {elements.substr(skipped, elements.size() - skipped - std::string("</svg>").size()),
          any ? y + kRow / 2 - top : 0};
}

// A drawing of the page begins with its viewBox; in a file of its own it needs a size, a namespace, its style and a
// legend.
std::string standalone(const std::string& drawing, const LabelNames& names) {
  const size_t begin = drawing.find('>') + 1, end = drawing.rfind("</svg>");
  const std::string box = between(drawing, "viewBox=\"", "\""), label = between(drawing, "aria-label=\"", "\"");
  const size_t blank = box.rfind(' '), before = box.rfind(' ', blank - 1);
  const double width = std::stod(box.substr(before + 1)), height = std::stod(box.substr(blank + 1));
  const auto legend = legend_below(drawing, names, width, height);
  const auto tall = coordinate(height + legend.height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + coordinate(width) + " " + tall + "\" width=\"" +
         coordinate(width) + "\" height=\"" + tall + "\" role=\"img\" aria-label=\"" + label + "\"><style>" +
         drawing_style() + "</style>\n" + drawing.substr(begin, end - begin) + legend.elements + "</svg>\n";
}

// The drawings of a figure and its numbers, under names that begin with the figure's, so that they stand together; with
// several tables the drawings have the table's name too.
class FigureWriter {
 public:
  explicit FigureWriter(bool several) : several_(several) {}

  void add(const std::string& figure, const std::string& of, const Figure& content, const LabelNames& names) {
    const std::string opening = "<svg viewBox=", closing = "</svg>";
    if (!content.csv.empty()) out.push_back({free_name(joined(figure, of), ".csv"), content.csv});
    for (size_t at = 0; (at = content.html.find(opening, at)) != std::string::npos;) {
      const size_t end = content.html.find(closing, at) + closing.size();
      const std::string drawing = content.html.substr(at, end - at);
      at = end;
      if (drawing.find("viewBox=\"0 0 26 10\"") != std::string::npos) continue;  // a legend's sample of a line
      const std::string label = between(drawing, "aria-label=\"", "\"");
      out.push_back(
          {free_name(joined(several_ ? joined(figure, of) : figure, label), ".svg"), standalone(drawing, names)});
    }
  }

  std::vector<FigureFile> out;

 private:
  static std::string joined(const std::string& figure, const std::string& of) {
    const auto name = file_name(of);
    return name.empty() ? figure : figure + "-" + name;
  }
  std::string free_name(const std::string& name, const std::string& ending) {
    const int seen = ++seen_[name + ending];
    return name + (seen > 1 ? "-" + std::to_string(seen) : "") + ending;
  }
  bool several_;
  std::map<std::string, int> seen_;
};

}  // namespace

std::vector<FigureFile> figure_files(const Comparison& comparison, std::vector<std::string>& unread) {
  const auto drawn = [](const ComparisonTable& table) { return !table.means; };
  FigureWriter writer(std::count_if(comparison.tables.begin(), comparison.tables.end(), drawn) > 1);
  for (const auto& table : comparison.tables) {
    if (table.means) continue;
    for (const auto& figure : all_figures())
      writer.add(figure.name, table_title(table), drawn_or_named([&] { return figure.draw(table); }, unread),
                 names_by_style(table));
  }
  writer.add(kBackbonesName, "", drawn_or_named([&] { return figure_backbones(comparison); }, unread), {});
  return std::move(writer.out);
}

}  // namespace asr
