#include "report/page.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/atomic_file.h"
#include "base/checksums.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "report/figures.h"
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
  if (content.contains("format"))  // earlier versions hashed otherwise
    check(content.contains("hash") && content["hash"] == self_hash(content), path,
          ": is damaged; 'asr run --resume' writes it again");
  std::string out = "<details><summary>" + escaped(root) + "</summary><dl class=\"facts\">";
  for (const auto& [key, value] : content.items())
    out += "<dt>" + escaped(key) + "</dt><dd><code>" +
           escaped(value.is_string() ? value.get<std::string>() : value.dump()) + "</code></dd>";
  return out + "</dl></details>\n";
}

// Earlier versions, whose fingerprint names no format, wrote no checksum into it.
std::string config_text(const std::string& path, bool has_checksum) {
  const auto text = read_file(path, 1 << 20);
  return has_checksum ? checked_by_line(text, path) : text;
}

// One configuration a call of asr run: runs of the same folder may come from several. By content, so that the file in
// the output folder, which the last call wrote, stands for all runs of that call.
std::map<std::string, std::string> configurations(const std::string& root, const std::vector<Run>& runs) {
  std::map<std::string, std::string> out;  // path by content
  std::vector<std::string> paths = {root + "/config.yaml"};
  for (const auto& run : runs)
    if (run.root == root) paths.push_back(run.folder + "/config.yaml");
  const bool has_checksums =
      path_exists(root + "/fingerprint.json") && read_json(root + "/fingerprint.json").contains("format");
  for (const auto& path : paths)
    if (path_exists(path)) out.emplace(config_text(path, has_checksums), path);
  return out;
}

// Into a folder of its own: asr run does not write over runs that are there.
std::string reproduce_html(const std::string& root, const std::vector<Run>& runs) {
  const auto configs = configurations(root, runs);
  if (configs.empty()) return missing("No command can be given: " + root + "/config.yaml does not exist.");
  const std::string again = root + "-again";
  std::string commands, texts;
  for (const auto& [text, path] : configs) {
    const char* leave_done = configs.size() > 1 ? " --resume" : "";  // what two of them share is run once
    commands += "asr run " + quoted(path) + leave_done + " --set " + quoted("output_dir=" + again) + "\n";
    texts +=
        "<details><summary>" + escaped(path) + "</summary><pre><code>" + escaped(text) + "</code></pre></details>\n";
  }
  commands += "asr compare " + quoted(root) + " " + quoted(again);
  return "<pre><code>" + escaped(commands) +
         "</code></pre>\n<p class=\"note\">In the folder in which the runs were "
         "started: relative paths are meant from there.</p>\n" +
         texts;
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

std::string section(const std::string& title, const std::string& body) {
  return "<section><h3>" + escaped(title) + "</h3>\n" + body + "</section>\n";
}

std::string table_html(const Comparison& comparison, const ComparisonTable& table) {
  std::string out = "<h2>" + escaped(table_title(table)) + "</h2>\n" + (table.means ? "" : facts_html(table));
  Grid scores = score_grid(comparison, table);
  scores.caption = "scores";  // the heading above has said of what
  std::string tables = html_grid(scores);
  if (!table.differences.empty()) tables += html_grid(difference_grid(comparison, table));
  out += section("Comparison", tables + html_list(footnotes(comparison, table), "notes"));
  if (table.means) return out;
  for (const auto& figure : all_figures()) out += section(figure.title, figure.draw(table));
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
  std::vector<std::string> remarks = comparison.notes;
  for (const auto& line : comparison.skipped) remarks.push_back("skipped: " + line);
  out += html_list(remarks, "remarks");
  for (const auto& table : comparison.tables) out += table_html(comparison, table);
  out += "<h2>To reproduce</h2>\n";
  for (const auto& root : roots) out += reproduce_html(root, set.runs);
  out += "<h2>Settings</h2>\n";
  for (const auto& root : roots) out += fingerprint_html(root);
  return out + "<footer>" + escaped(version) + "</footer>\n</main></body></html>\n";
}

}  // namespace asr
