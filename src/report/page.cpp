#include "report/page.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "report/answer.h"
#include "report/figures.h"
#include "report/markup.h"
#include "report/matrices.h"
#include "report/page_parts.h"
#include "report/svg.h"

namespace asr {
namespace {

std::string html_list(const std::vector<std::string>& lines, const char* css) {
  if (lines.empty()) return "";
  std::string out = cat("<ul class=\"", css, "\">\n");
  for (const auto& line : lines) out += "<li>" + escaped(line) + "</li>\n";
  return out + "</ul>\n";
}

std::string facts_html(const ComparisonTable& table) {
  std::set<int64_t> seeds, orders;
  size_t runs = 0;
  std::string tasks;
  for (const auto& group : table.groups)
    for (const Run* run : group.runs) {
      if (tasks.empty() && !run->joint()) tasks = join(run->tasks, ", ");
      seeds.insert(run->seed);
      orders.insert(run->order);
      ++runs;
    }
  const auto fact = [](const std::string& name, const std::string& value) {
    return "<dt>" + name + "</dt><dd>" + escaped(value) + "</dd>";
  };
  return "<dl class=\"facts\">" +
         (tasks.empty() ? "" : fact(orders.size() > 1 ? "tasks, first order" : "tasks", tasks)) +
         fact("runs",
              cat(runs, runs == 1 ? " run" : " runs", ", ", seeds.size(), seeds.size() == 1 ? " seed" : " seeds", ", ",
                  orders.size(), orders.size() == 1 ? " order" : " orders")) +
         "</dl>\n";
}

struct Section {
  std::string id, title, body, csv;
};

std::string section_html(const Section& part) {
  const std::string data = part.csv.empty()
                               ? ""
                               : " <a class=\"data\" download=\"" + part.id + ".csv\" href=\"data:text/csv;base64," +
                                     base64(part.csv) + "\">data (CSV)</a>";
  return "<section id=\"" + part.id + "\"><h3><a href=\"#" + part.id + "\">" + escaped(part.title) + "</a>" + data +
         "</h3>\n" + part.body + "</section>\n";
}

// The main table with one column more: how much is kept.
std::string main_table(const Comparison& comparison, const ComparisonTable& table) {
  Grid grid = score_grid(comparison, table);
  grid.caption = "scores";  // the heading above has said of what
  std::vector<int> styles;
  grid.header.insert(grid.header.begin() + 2, "kept, %");
  for (auto& name : grid.header)
    if (name == "AP") name = "AP = Last";
  for (size_t i = 0; i < table.groups.size(); ++i) {
    const auto& group = table.groups[i];
    grid.rows[i].insert(grid.rows[i].begin() + 2, score_cell(kept_percent(group), 1));
    styles.push_back(group.zero_shot ? -1 : table.style_of(group.label));
  }
  return html_grid(grid, styles);
}

std::string differences_html(const Comparison& comparison, const ComparisonTable& table) {
  if (table.differences.empty()) return "";
  std::vector<int> styles;
  for (const auto& difference : table.differences) styles.push_back(table.style_of(difference.label));
  return html_grid(difference_grid(comparison, table), styles);
}

// `suffix` tells the sections of several tables apart, so that each can be linked to.
std::string table_html(const Comparison& comparison, const ComparisonTable& table, const std::string& suffix,
                       std::vector<std::string>& unread) {
  std::string out = "<h2>" + cut_name(table_title(table), 120) + "</h2>\n<p class=\"answer\">" +
                    escaped(answer_sentence(table)) + "</p>\n" + main_table(comparison, table);
  if (!table.means) out += answer_matrices(table);
  auto notes = footnotes(comparison, table);
  notes.insert(notes.begin(),
               "kept: the final scores of all tasks but the last, as percent of their scores when just learnt.");
  out += section_html(
      {"comparison" + suffix, "Differences and what the numbers mean",
       (table.means ? "" : facts_html(table)) + differences_html(comparison, table) + html_list(notes, "notes"), ""});
  if (table.means) return out;
  for (const auto& figure : all_figures()) {
    const auto content = drawn_or_named([&] { return figure.draw(table); }, unread);
    out += section_html({figure.name + suffix, figure.title, content.html, content.csv});
  }
  return out;
}

std::string title_of(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const auto& table : comparison.tables) {
    const auto name = table.stream + " on " + table.backbone;
    if (!table.means && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return "ASR: " + join(names, "; ");
}

// One button a label, which shows or hides it in every figure and table. The script uncovers them.
std::string label_buttons(const Comparison& comparison) {
  if (comparison.tables.empty()) return "";
  std::vector<std::pair<int, std::string>> labels;
  for (const auto& [label, style] : comparison.tables[0].styles) labels.emplace_back(style, label);
  std::sort(labels.begin(), labels.end());
  std::string out = "<nav class=\"labels\" aria-label=\"labels shown\" hidden>";
  for (const auto& [style, label] : labels) {
    Svg swatch(26, 10, label, 26);
    swatch.line(1, 5, 25, 5, series_class(style));
    swatch.marker(13, 5, style);
    out += cat("<button type=\"button\" data-toggle=\"", style, "\" aria-pressed=\"true\" title=\"", escaped(label),
               "\">", swatch.done(), escaped(shortened(label, 30)), "</button>");
  }
  return out + "<output></output></nav>\n";
}

std::string remarks_html(const Comparison& comparison) {
  std::vector<std::string> remarks = comparison.notes;
  for (const auto& line : comparison.skipped) remarks.push_back("skipped: " + line);
  if (remarks.empty()) return "";
  return cat("<details class=\"remarks\"><summary>", remarks.size(), remarks.size() == 1 ? " remark" : " remarks",
             " on these runs</summary>\n", html_list(remarks, "notes"), "</details>\n");
}

// Whether a column is to be read from its left: some cell begins with a letter.
bool holds_words(const Grid& grid, size_t column) {
  for (const auto& row : grid.rows)
    if (column < row.size() && !row[column].value.empty() &&
        std::isalpha(static_cast<unsigned char>(row[column].value[0])))
      return true;
  return false;
}

std::string cell_html(const Cell& cell) {
  const std::string value = cell.whole.empty()
                                ? cut_name(cell.value, 60)
                                : "<span title=\"" + escaped(cell.whole) + "\">" + escaped(cell.value) + "</span>";
  return value + (cell.detail.empty() ? "" : "<br><small>" + escaped(cell.detail) + "</small>");
}

}  // namespace

std::string html_grid(const Grid& grid, const std::vector<int>& styles) {
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\"><table><caption>" + escaped(grid.caption) + "</caption><thead><tr>";
  for (size_t i = 0; i < grid.header.size(); ++i)
    out += (holds_words(grid, i) ? "<th scope=\"col\" class=\"words\">" : "<th scope=\"col\">") +
           escaped(grid.header[i]) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    const auto& row = grid.rows[r];
    out += r < styles.size() && styles[r] >= 0 ? "<tr " + of_label(styles[r]) + ">" : std::string("<tr>");
    for (size_t i = 0; i < row.size(); ++i) {
      const auto value = cell_html(row[i]);
      if (i == 0)
        out += "<th scope=\"row\">" + value + "</th>";
      else
        out += (holds_words(grid, i) ? "<td class=\"words\">" : "<td>") + value + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string folded_panels(const std::vector<std::string>& panels, size_t shown, const std::string& what,
                          const std::string& grid) {
  const auto part = [&](size_t from, size_t to) {
    std::string out = "<div class=\"grid " + grid + "\">\n";
    for (size_t i = from; i < to; ++i) out += panels[i];
    return out + "</div>\n";
  };
  if (panels.size() <= shown) return part(0, panels.size());
  return part(0, shown) + cat("<details><summary>", panels.size() - shown, " more ", what, "</summary>\n",
                              part(shown, panels.size()), "</details>\n");
}

std::string report_page(const RunSet& set, const Comparison& comparison, const std::string& version) {
  return make_report_page(set, comparison, version).html;
}

ReportPage make_report_page(const RunSet& set, const Comparison& comparison, const std::string& version) {
  std::vector<std::string> unread = set.damaged;
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
      escaped(title_of(comparison)) + "</title>\n<style>" + page_style() + "</style></head><body><main>\n<h1>" +
      cut_name(title_of(comparison), 120) + "</h1>\n" + label_buttons(comparison) + remarks_html(comparison);
  for (size_t i = 0; i < comparison.tables.size(); ++i)
    out += table_html(comparison, comparison.tables[i], i == 0 ? "" : cat("-", i + 1), unread);
  const auto backbones = drawn_or_named([&] { return figure_backbones(comparison); }, unread);
  out += section_html({kBackbonesName, kBackbonesTitle, backbones.html, backbones.csv});
  out += settings_html(set, unread) + "<footer>" + escaped(version) + "</footer>\n</main><script>" + page_script() +
         "</script></body></html>\n";
  return {std::move(out), std::move(unread)};
}

std::string report_markdown(const Comparison& comparison) {
  std::string out = "# " + printable(title_of(comparison), 200) + "\n\n";
  for (const auto& table : comparison.tables)
    out += cat("**", printable(table_title(table), 200), "**: ", answer_sentence(table), "\n\n");
  return out + markdown_tables(comparison);
}

}  // namespace asr
