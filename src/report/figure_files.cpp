#include "report/figure_files.h"

#include <cctype>
#include <map>

#include "base/error.h"
#include "report/figures.h"
#include "report/page.h"

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

// A drawing of the page begins with its viewBox; in a file of its own it needs a size, a namespace and its style.
std::string standalone(const std::string& drawing) {
  const size_t end = drawing.find('>') + 1;
  const std::string box = between(drawing, "viewBox=\"", "\""), label = between(drawing, "aria-label=\"", "\"");
  const size_t blank = box.rfind(' '), before = box.rfind(' ', blank - 1);
  const std::string width = box.substr(before + 1, blank - before - 1), height = box.substr(blank + 1);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"" + box + "\" width=\"" + width + "\" height=\"" +
         height + "\" role=\"img\" aria-label=\"" + label + "\"><style>" + drawing_style() + "</style>\n" +
         drawing.substr(end) + "\n";
}

}  // namespace

std::vector<FigureFile> figure_files(const Comparison& comparison) {
  const std::string opening = "<svg viewBox=", closing = "</svg>";
  std::vector<FigureFile> out;
  std::map<std::string, int> names;
  for (const auto& table : comparison.tables) {
    if (table.means) continue;
    for (const auto& figure : all_figures()) {
      const auto [html, csv] = figure.draw(table);
      if (!csv.empty()) out.push_back({cat(figure.name, "-", file_name(table_title(table)), ".csv"), csv});
      for (size_t at = 0; (at = html.find(opening, at)) != std::string::npos;) {
        const size_t end = html.find(closing, at) + closing.size();
        const std::string drawing = html.substr(at, end - at), label = between(drawing, "aria-label=\"", "\"");
        at = end;
        if (drawing.find("viewBox=\"0 0 26 10\"") != std::string::npos) continue;  // a legend's sample of a line
        const std::string name = file_name(label);
        const int seen = ++names[name];
        out.push_back({name + (seen > 1 ? "-" + std::to_string(seen) : "") + ".svg", standalone(drawing)});
      }
    }
  }
  return out;
}

}  // namespace asr
