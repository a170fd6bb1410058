// The formats: terminal, Markdown, LaTeX, CSV and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"
#include "report/contrasts.h"
#include "report/tables.h"

namespace asr {
namespace {

using nlohmann::json;

// Characters, not bytes: every byte of UTF-8 but the continuations.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, bool left) {
  const std::string space(width > width_of(text) ? width - width_of(text) : 0, ' ');
  return left ? text + space : space + text;
}

std::string text_line(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += (i ? "  " : "") + padded(cells[i], widths[i], i == 0);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string text_grid(const Grid& grid) {
  std::vector<size_t> widths;
  for (const auto& name : grid.header) widths.push_back(width_of(name));
  for (const auto& row : grid.rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max({widths[i], width_of(row[i].value), width_of(row[i].detail)});
  std::string out = text_line(grid.header, widths);
  for (const auto& row : grid.rows) {
    std::vector<std::string> values, details;
    for (const auto& cell : row) {
      values.push_back(cell.value);
      details.push_back(cell.detail);
    }
    out += text_line(values, widths);
    const bool any = std::any_of(details.begin(), details.end(), [](const std::string& d) { return !d.empty(); });
    if (any) out += text_line(details, widths);
  }
  return out;
}

// Broken at spaces to 80 columns; further lines are indented under the first.
std::string wrapped(const std::string& raw) {
  const std::string text = printable(raw, 2000);  // names from files must not steer the terminal
  std::string out, line = "-";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (width_of(line) + 1 + width_of(word) > 80 && line.size() > 1) {
      out += line + "\n";
      line = " ";
    }
    line += " " + word;
    begin = end + 1;
  }
  return out + line + "\n";
}

std::string replaced(const std::string& text, const std::string& special, const char* const* replacements) {
  std::string out;
  for (char c : text) {
    const size_t place = special.find(c);
    out += place == std::string::npos ? std::string(1, c) : replacements[place];
  }
  return out;
}

// A line end would end a table's row.
std::string markdown_escaped(const std::string& text) {
  static const char* const replacements[] = {"\\|", "\\*", "\\_", "&lt;", "\\`", "\\[", "\\\\"};
  return replaced(printable(text, 2000), "|*_<`[\\", replacements);
}

std::string markdown_grid(const Grid& grid) {
  std::string out = "|", rule = "|";
  for (size_t i = 0; i < grid.header.size(); ++i) {
    out += " " + markdown_escaped(grid.header[i]) + " |";
    rule += i == 0 ? "---|" : "---:|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : grid.rows) {
    out += "|";
    for (const auto& cell : row)
      out += " " + markdown_escaped(cell.value) + (cell.detail.empty() ? "" : " (" + cell.detail + ")") + " |";
    out += "\n";
  }
  return out;
}

std::string latex_escaped(const std::string& text) {
  static const char* const replacements[] = {"\\&",
                                             "\\%",
                                             "\\$",
                                             "\\#",
                                             "\\_",
                                             "\\{",
                                             "\\}",
                                             "\\textasciitilde{}",
                                             "\\textasciicircum{}",
                                             "\\textbackslash{}"};
  std::string out = replaced(text, "&%$#_{}~^\\", replacements);
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"±", "$\\pm$"}, {"†", "$\\dagger$"}})
    for (size_t at = 0; (at = out.find(from, at)) != std::string::npos; at += to.size())
      out.replace(at, from.size(), to);
  return out;
}

// A minus sign in text mode would print as a hyphen.
std::string latex_number(const std::string& text) {
  std::string out = latex_escaped(text);
  if (!out.empty() && out[0] == '-' && out.size() > 1) out = "$-$" + out.substr(1);
  return out;
}

std::string latex_grid(const Grid& grid) {
  std::string out = "\\begin{tabular}{l" + std::string(grid.header.size() - 1, 'r') + "}\n\\toprule\n";
  const auto line = [&out](const std::vector<std::string>& cells) { out += join(cells, " & ") + " \\\\\n"; };
  std::vector<std::string> header;
  for (const auto& name : grid.header) header.push_back(latex_escaped(name));
  line(header);
  out += "\\midrule\n";
  for (const auto& row : grid.rows) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < row.size(); ++i)
      cells.push_back((i == 0 ? latex_escaped(row[i].value) : latex_number(row[i].value)) +
                      (row[i].detail.empty() ? "" : " {\\scriptsize [" + latex_escaped(row[i].detail) + "]}"));
    line(cells);
  }
  return out + "\\bottomrule\n\\end{tabular}\n";
}

std::string csv_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "";
}

const char* name_of(IntervalOver over) {
  return over == IntervalOver::pairs     ? "pairs"
         : over == IntervalOver::samples ? "samples"
         : over == IntervalOver::student ? "student"
                                         : "";
}

const Difference* difference_of(const ComparisonTable& table, const Group& group) {
  for (const auto& difference : table.differences)
    if (difference.label == group.label && !group.zero_shot) return &difference;
  return nullptr;
}

std::string csv_difference(const ComparisonTable& table, const Difference* d, size_t m) {
  if (!d) return ",,,,,,";
  const auto& interval = d->intervals[m];
  return fmt::format("{},{},{},{},{},{},{}", csv_safe_field(table.against), d->pairs, csv_number(d->mean[m]),
                     csv_number(interval.low), csv_number(interval.high), interval.known() ? name_of(d->over) : "",
                     interval.known() ? (interval.excludes_zero() ? "1" : "0") : "");
}

std::string csv_settings(const ComparisonTable& table, const Group& group) {
  const auto s = row_settings(group);
  const Difference* difference = difference_of(table, group);
  const auto place = table.places.find(group.label);
  return fmt::format("{},{},{},{},{},{},{},{},{},{}", csv_safe_field(table.split), csv_safe_field(table.head), s.rate,
                     csv_safe_field(s.strength), s.epochs, csv_number(s.parameters), csv_number(s.bytes),
                     csv_number(s.passes), difference ? difference->words : "",
                     place == table.places.end() ? "" : csv_safe_field(place->second));
}

json number_json(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json group_json(const Comparison& comparison, const Group& group) {
  json scores = json::object(), seeds = json::array();
  for (size_t m = 0; m < comparison.metrics.size(); ++m) {
    const auto& s = group.scores[m];
    scores[comparison.metrics[m]] = {{"n", s.n},
                                     {"mean", number_json(s.mean)},
                                     {"deviation", number_json(s.deviation)},
                                     {"low", number_json(s.interval.low)},
                                     {"high", number_json(s.interval.high)}};
  }
  for (const Run* run : group.runs) seeds.push_back({{"seed", run->seed}, {"order", run->order}, {"run", run->folder}});
  const auto s = row_settings(group);
  return {{"label", group.label},
          {"replay_free", group.replay_free},
          {"runs", seeds},
          {"scores", scores},
          {"learning_rate", s.rate},
          {"strength", s.strength},
          {"num_train_epochs", s.epochs},
          {"trained_parameters", number_json(s.parameters)},
          {"bytes_kept", number_json(s.bytes)},
          {"passes", number_json(s.passes)}};
}

json difference_json(const Comparison& comparison, const Difference& d) {
  json scores = json::object();
  for (size_t m = 0; m < comparison.metrics.size(); ++m)
    scores[comparison.metrics[m]] = {{"mean", number_json(d.mean[m])},
                                     {"low", number_json(d.intervals[m].low)},
                                     {"high", number_json(d.intervals[m].high)},
                                     {"excludes_zero", d.intervals[m].excludes_zero()}};
  return {{"label", d.label},
          {"pairs", d.pairs},
          {"interval_over", name_of(d.over)},
          {"scores", scores},
          {"words", d.words}};
}

json mean_test_json(const MeanTest& test) {
  return {{"n", test.n},
          {"mean", number_json(test.mean)},
          {"low", number_json(test.interval.low)},
          {"high", number_json(test.interval.high)},
          {"p", number_json(test.p)}};
}

json contrast_json(const ContrastResult& c, bool primary) {
  json settings = json::array();
  for (const auto& s : c.settings) {
    settings.push_back(mean_test_json(s.test));
    settings.back()["setting"] = s.setting;
  }
  auto overall = mean_test_json(c.overall);
  overall["agree"] = c.overall.agree;
  return {{"contrast", c.contrast.name()},
          {"primary", primary},
          {"overall", overall},
          {"p_holm", number_json(c.adjusted)},
          {"significant", c.significant()},
          {"words", c.words},
          {"settings", settings}};
}

}  // namespace

std::string grid_text(const Grid& grid, const std::string& format) {
  if (format == "markdown") return cat("## ", markdown_escaped(grid.caption), "\n\n", markdown_grid(grid));
  if (format == "latex") return cat("% ", printable(grid.caption, 2000), "\n", latex_grid(grid));
  return cat(printable(grid.caption, 2000), "\n\n", text_grid(grid));
}

std::string notes_text(const std::vector<std::string>& notes, const std::string& format) {
  std::string out;
  for (const auto& note : notes)
    out += format == "markdown" ? "- " + markdown_escaped(note) + "\n"
           : format == "latex"  ? "% " + printable(note, 2000) + "\n"
                                : wrapped(note);
  return out;
}

std::string text_tables(const Comparison& comparison) {
  std::string out;
  for (const auto& table : comparison.tables) {
    const auto scores = score_grid(comparison, table), differences = difference_grid(comparison, table);
    out += cat(out.empty() ? "" : "\n", printable(scores.caption, 120), "\n\n", text_grid(scores));
    if (!differences.rows.empty()) out += cat("\n", differences.caption, "\n\n", text_grid(differences));
    if (comparison.by_protocol) {
      const auto settings = settings_grid(table);
      out += cat("\n", settings.caption, "\n\n", text_grid(settings));
    }
    out += "\n";
    for (const auto& note : footnotes(comparison, table)) out += wrapped(note);
  }
  if (const auto contrasts = contrast_grid(comparison); !contrasts.rows.empty())
    out += cat("\n", contrasts.caption, "\n\n", text_grid(contrasts), "\n");
  for (const auto& note : contrast_notes(comparison)) out += wrapped(note);
  for (const auto& note : comparison.notes) out += wrapped(note);
  if (!comparison.skipped.empty()) out += "\n";
  for (const auto& line : comparison.skipped) out += "skipped: " + printable(line, 500) + "\n";
  return out;
}

std::string markdown_tables(const Comparison& comparison) {
  std::string out;
  for (const auto& table : comparison.tables) {
    const auto scores = score_grid(comparison, table), differences = difference_grid(comparison, table);
    out += cat(out.empty() ? "" : "\n", "## ", markdown_escaped(scores.caption), "\n\n", markdown_grid(scores));
    if (!differences.rows.empty())
      out += cat("\n### ", markdown_escaped(differences.caption), "\n\n", markdown_grid(differences));
    if (comparison.by_protocol) {
      const auto settings = settings_grid(table);
      out += cat("\n### ", markdown_escaped(settings.caption), "\n\n", markdown_grid(settings));
    }
    out += "\n";
    for (const auto& note : footnotes(comparison, table)) out += "- " + markdown_escaped(note) + "\n";
  }
  if (const auto contrasts = contrast_grid(comparison); !contrasts.rows.empty())
    out += cat("\n## ", markdown_escaped(contrasts.caption), "\n\n", markdown_grid(contrasts), "\n");
  for (const auto& note : contrast_notes(comparison)) out += "- " + markdown_escaped(note) + "\n";
  for (const auto& note : comparison.notes) out += "- " + markdown_escaped(note) + "\n";
  for (const auto& line : comparison.skipped) out += "- skipped: " + markdown_escaped(line) + "\n";
  return out;
}

std::string latex_tables(const Comparison& comparison) {
  std::string out;
  const auto comment = [&out](const std::string& text) { out += "% " + printable(text, 2000) + "\n"; };
  for (const auto& table : comparison.tables) {
    const auto scores = score_grid(comparison, table), differences = difference_grid(comparison, table);
    comment(scores.caption);
    out += latex_grid(scores);
    if (!differences.rows.empty()) {
      comment(differences.caption);
      out += latex_grid(differences);
    }
    if (comparison.by_protocol) {
      const auto settings = settings_grid(table);
      comment(settings.caption);
      out += latex_grid(settings);
    }
    for (const auto& note : footnotes(comparison, table)) comment(note);
  }
  if (const auto contrasts = contrast_grid(comparison); !contrasts.rows.empty()) {
    comment(contrasts.caption);
    out += latex_grid(contrasts);
  }
  for (const auto& note : contrast_notes(comparison)) comment(note);
  for (const auto& note : comparison.notes) comment(note);
  for (const auto& line : comparison.skipped) comment("skipped: " + line);
  return out;
}

std::string csv_table(const Comparison& comparison) {
  std::string out =
      "stream,backbone,label,replay_free,metric,n,mean,deviation,low,high,against,pairs,difference,difference_low,"
      "difference_high,interval_over,excludes_zero,held_out,split,head,learning_rate,strength,num_train_epochs,"
      "trained_parameters,bytes_kept,passes,in_words,against_rates\n";
  for (const auto& table : comparison.tables)
    for (const auto& group : table.groups)
      for (size_t m = 0; m < comparison.metrics.size(); ++m) {
        const auto& s = group.scores[m];
        out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_safe_field(table.stream),
                           csv_safe_field(table.backbone), csv_safe_field(group.label), group.replay_free ? 1 : 0,
                           comparison.metrics[m], s.n, csv_number(s.mean), csv_number(s.deviation),
                           csv_number(s.interval.low), csv_number(s.interval.high),
                           csv_difference(table, difference_of(table, group), m), csv_safe_field(table.held_out),
                           csv_settings(table, group));
      }
  return out;
}

json comparison_json(const Comparison& comparison) {
  json tables = json::array();
  for (const auto& table : comparison.tables) {
    json groups = json::array(), differences = json::array();
    for (const auto& group : table.groups) groups.push_back(group_json(comparison, group));
    for (const auto& difference : table.differences) differences.push_back(difference_json(comparison, difference));
    tables.push_back({{"stream", table.stream},
                      {"held_out", table.held_out},
                      {"means", table.means},
                      {"backbone", table.backbone},
                      {"split", table.split},
                      {"head", table.head},
                      {"places", table.places},
                      {"searched", table.searched},
                      {"groups", groups},
                      {"against", table.against},
                      {"differences", differences},
                      {"notes", footnotes(comparison, table)}});
  }
  json contrasts = json::array();
  for (const auto& contrast : comparison.contrasts) contrasts.push_back(contrast_json(contrast, comparison.primary));
  return {{"metrics", comparison.metrics},
          {"tables", tables},
          {"contrasts", contrasts},
          {"skipped", comparison.skipped},
          {"notes", comparison.notes}};
}

}  // namespace asr
