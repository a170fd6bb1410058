// Which slot answered the questions of each task after the last stage, where a method chooses slots sample by sample:
// routing.csv as a table of percents, one a label.
#include <fmt/format.h>

#include <algorithm>

#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "io/csv.h"
#include "report/colors.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/svg.h"

namespace asr {
namespace {

std::vector<std::vector<std::string>> routing_cells(const std::string& path) {
  std::vector<std::vector<std::string>> out;
  const auto content = read_as_written(path, size_t(64) << 20);
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    out.push_back(split_csv_line(content.substr(begin, end - begin), path));
    check(out.back().size() == out[0].size(), path, ":", out.size(), ": has ", out.back().size(), " cells and line 1 ",
          out[0].size());
    begin = end + 1;
  }
  return out;
}

std::string routing_row(const std::vector<std::string>& cells, const std::string& path) {
  int64_t all = 0;
  std::vector<int64_t> counts;
  for (size_t i = 1; i < cells.size(); ++i) {
    int64_t count = 0;
    check(parse_int(cells[i], count) && count >= 0, path, ": '", printable(cells[i]), "' is no count");
    counts.push_back(count);
    all += count;
  }
  std::string out = "<tr><th scope=\"row\">" + escaped(cells[0]) + "</th>";
  for (const int64_t count : counts) {
    const double part = all > 0 ? static_cast<double>(count) / static_cast<double>(all) : 0;
    const Rgb color = cell_color(part);
    out += count == 0 ? std::string("<td></td>")
                      : fmt::format("<td style=\"background:{};color:{}\">{:.1f}</td>", hex(color),
                                    text_color_on(color), 100 * part);
  }
  return out + "</tr>\n";
}

}  // namespace

Figure figure_routing(const ComparisonTable& table) {
  std::string out;
  for (const auto& [group, style] : styled_groups(table)) {
    const auto& run = first_run(*group);
    const auto path = run.folder + "/routing.csv";
    if (run.from_table() || !path_exists(path)) continue;
    const auto cells = routing_cells(path);
    out += "<figure " + of_label(style) + "><figcaption>" + escaped(group->label) +
           "</figcaption><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
    for (const auto& name : cells.empty() ? std::vector<std::string>() : cells[0])
      out += "<th scope=\"col\">" + escaped(name) + "</th>";
    out += "</tr></thead><tbody>\n";
    for (size_t i = 1; i < cells.size(); ++i) out += routing_row(cells[i], path);
    out += "</tbody></table></div></figure>\n";
  }
  if (out.empty())
    return std::string("<p class=\"note\">No method of these runs chooses an adapter for each sample.</p>\n");
  return "<p class=\"note\">Row: a task, in the order trained. Column: percent of its samples that this adapter "
         "answered after the last stage" +
         escaped(of_which_run(table)) + ". A shared adapter is named after the stage that made it.</p>\n" + out;
}

}  // namespace asr
