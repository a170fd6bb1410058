#include "report/page.h"

#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/text.h"
#include "report/figures.h"
#include "report/json_file.h"
#include "report/markup.h"
#include "report/tables.h"

namespace asr {
namespace {

using nlohmann::json;

std::string html_grid(const Grid& grid) {
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\"><table><caption>" + escaped(grid.caption) + "</caption><thead><tr>";
  for (const auto& name : grid.header) out += "<th scope=\"col\">" + escaped(name) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& row : grid.rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string detail = row[i].detail.empty() ? "" : "<br><small>" + escaped(row[i].detail) + "</small>";
      const std::string value = escaped(row[i].value) + detail;
      out += i == 0 ? "<th scope=\"row\">" + value + "</th>" : "<td>" + value + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string html_list(const std::vector<std::string>& lines, const char* css) {
  if (lines.empty()) return "";
  std::string out = cat("<ul class=\"", css, "\">\n");
  for (const auto& line : lines) out += "<li>" + escaped(line) + "</li>\n";
  return out + "</ul>\n";
}

// A path as a shell takes it.
std::string quoted(const std::string& path) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%";
  if (!path.empty() && path.find_first_not_of(plain) == std::string::npos) return path;
  std::string out = "'";
  for (char c : path) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fingerprint_html(const std::string& root) {
  const std::string path = root + "/fingerprint.json";
  if (!path_exists(path)) return missing("No fingerprint: " + path + " does not exist.");
  const json content = read_json(path);
  check(content.is_object(), path, ": is not a JSON object");
  std::string out = "<dl class=\"facts\"><dt>folder</dt><dd><code>" + escaped(root) + "</code></dd>";
  for (const auto& [key, value] : content.items())
    out += "<dt>" + escaped(key) + "</dt><dd><code>" +
           escaped(value.is_string() ? value.get<std::string>() : value.dump()) + "</code></dd>";
  return out + "</dl>\n";
}

std::string reproduce_html(const std::string& root) {
  const std::string path = root + "/config.yaml";
  if (!path_exists(path)) return missing("No command can be given: " + path + " does not exist.");
  return "<pre><code>asr run " + escaped(quoted(path)) + "\nasr compare " + escaped(quoted(root)) + "\nasr report " +
         escaped(quoted(root)) + "</code></pre>\n<details><summary>config.yaml</summary><pre><code>" +
         escaped(read_file(path, 1 << 20)) + "</code></pre></details>\n";
}

std::string facts_html(const ComparisonTable& table) {
  std::set<int64_t> seeds, orders;
  size_t runs = 0;
  std::string tasks;
  for (const auto& group : table.groups)
    for (const Run* run : group.runs) {
      if (tasks.empty() && !run->joint()) tasks = join(run->tasks, ", ");
      seeds.insert(run->seed), orders.insert(run->order), ++runs;
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

std::string section(const std::string& title, const std::string& body) {
  return "<section><h3>" + escaped(title) + "</h3>\n" + body + "</section>\n";
}

std::string table_html(const Comparison& comparison, const ComparisonTable& table) {
  std::string out = "<h2>" + escaped(table.stream + ", " + table.backbone) + "</h2>\n" + facts_html(table);
  Grid scores = score_grid(comparison, table);
  scores.caption = "scores";  // the heading above has said of what
  std::string tables = html_grid(scores);
  if (!table.differences.empty()) tables += html_grid(difference_grid(comparison, table));
  out += section("Comparison", tables + html_list(footnotes(comparison, table), "notes"));
  for (const auto& figure : all_figures()) out += section(figure.title, figure.draw(table));
  return out;
}

std::string title_of(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const auto& table : comparison.tables) names.push_back(table.stream + " on " + table.backbone);
  return "ASR: " + join(names, "; ");
}

}  // namespace

std::string report_page(const RunSet& set, const Comparison& comparison, const std::string& version) {
  std::set<std::string> roots;
  for (const auto& run : set.runs) roots.insert(run.root);
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
      escaped(title_of(comparison)) + "</title>\n<style>" + page_style() + "</style></head><body><main>\n<h1>" +
      escaped(title_of(comparison)) + "</h1>\n";
  for (const auto& root : roots) out += fingerprint_html(root);
  std::vector<std::string> remarks = comparison.notes;
  for (const auto& line : comparison.skipped) remarks.push_back("skipped: " + line);
  out += html_list(remarks, "remarks");
  for (const auto& table : comparison.tables) out += table_html(comparison, table);
  out += "<h2>To reproduce</h2>\n";
  for (const auto& root : roots) out += reproduce_html(root);
  return out + "<footer>" + escaped(version) + "</footer>\n</main></body></html>\n";
}

}  // namespace asr
