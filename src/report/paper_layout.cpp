#include "report/paper_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"

namespace asr {
namespace {

// A row: a method of the paper on one of its backbones, a label of ours, or both.
struct PaperRow {
  std::string label, title;
  std::string backbone;   // of the paper's numbers
  bool measured = false;  // whether our numbers belong here: further backbones of the paper's are rows of its own
  std::string runs_of;    // the label of our numbers
};

using Column = std::pair<std::string, std::string>;  // benchmark and metric

std::vector<Column> paper_columns(const std::vector<PaperNumber>& numbers) {
  std::vector<Column> out;
  for (const auto& number : numbers) {
    const Column column(number.benchmark, number.metric);
    if (std::find(out.begin(), out.end(), column) == out.end()) out.push_back(column);
  }
  return out;
}

const Group* group_of(const ComparisonTable& table, const std::string& label) {
  for (const auto& group : table.groups)
    if (group.label == label) return &group;
  return nullptr;
}

bool is_there(const Comparison& comparison, const std::string& label) {
  return std::any_of(comparison.tables.begin(), comparison.tables.end(),
                     [&](const ComparisonTable& table) { return group_of(table, label) != nullptr; });
}

bool is_replay_free(const Comparison& comparison, const std::string& label) {
  for (const auto& table : comparison.tables)
    if (const auto* group = group_of(table, label)) return group->replay_free;
  return true;
}

std::vector<PaperRow> rows_of(const Comparison& comparison, const std::vector<PaperNumber>& numbers) {
  std::vector<PaperRow> out;
  std::set<std::string> known;
  for (const auto& number : numbers) {
    const bool there = std::any_of(out.begin(), out.end(), [&](const PaperRow& row) {
      return row.label == number.method && row.backbone == number.backbone;
    });
    if (there) continue;
    const bool first = known.insert(number.method).second;
    PaperRow row{number.method, first ? number.name : cat(number.name, ", ", number.backbone), number.backbone, first,
                 number.method};
    if (first && !number.same_as.empty() && !is_there(comparison, number.method) &&
        is_there(comparison, number.same_as)) {
      row.runs_of = number.same_as;
      row.title += cat(" (as ", number.same_as, ")");
    }
    out.push_back(std::move(row));
  }
  std::set<std::string> others;
  for (const auto& table : comparison.tables)
    for (const auto& group : table.groups)
      if (!known.count(group.label)) others.insert(group.label);
  for (const auto& label : others) out.push_back({label, label, "", true, label});
  for (auto& row : out)
    if (row.measured && !is_replay_free(comparison, row.runs_of)) row.title += " †";
  return out;
}

const PaperNumber* number_of(const std::vector<PaperNumber>& numbers, const PaperRow& row, const Column& column) {
  for (const auto& number : numbers)
    if (number.method == row.label && number.backbone == row.backbone && number.benchmark == column.first &&
        number.metric == column.second)
      return &number;
  return nullptr;
}

// Metrics that some run of the setting has.
std::vector<size_t> shown_metrics(const Comparison& comparison, const ComparisonTable& table) {
  std::vector<size_t> out;
  for (size_t m = 0; m < comparison.metrics.size(); ++m)
    if (std::any_of(table.groups.begin(), table.groups.end(), [&](const Group& g) { return g.scores[m].n > 0; }))
      out.push_back(m);
  return out;
}

Spread cost_spread(const Group& group, double RunCost::*field) {
  std::vector<double> values;
  for (const Run* run : group.runs) values.push_back(run->cost.*field);
  return spread_of(values);
}

Grid score_columns(const Comparison& comparison, const std::vector<PaperNumber>& numbers, PaperTable table) {
  Grid grid{cat("scores, in the layout of the paper's table ", label_of(table)), {"method"}, {}};
  const auto columns = paper_columns(numbers);
  for (const auto& setting : comparison.tables)
    for (const size_t m : shown_metrics(comparison, setting))
      grid.header.push_back(cat(table_title(setting), ": ", comparison.metrics[m]));
  for (const auto& [benchmark, metric] : columns) grid.header.push_back(cat("paper: ", benchmark, " ", metric));
  for (const auto& row : rows_of(comparison, numbers)) {
    std::vector<Cell> cells = {{printable(row.title), ""}};
    for (const auto& setting : comparison.tables) {
      const auto* group = row.measured ? group_of(setting, row.runs_of) : nullptr;
      for (const size_t m : shown_metrics(comparison, setting))
        cells.push_back(group ? score_cell(group->scores[m], 2) : Cell{"-", ""});
    }
    for (const auto& column : columns) {
      const auto* number = number_of(numbers, row, column);
      cells.push_back({number ? fmt::format("{:.1f}", number->value) : "-", ""});
    }
    grid.rows.push_back(std::move(cells));
  }
  return grid;
}

std::string rounded(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

Grid cost_columns(const Comparison& comparison, const std::vector<PaperNumber>& numbers) {
  Grid grid{"what they keep, train and take", {"method"}, {}};
  for (const auto& setting : comparison.tables)
    for (const auto& what : {std::string("kept"), std::string("trained"), std::string("ms a step"),
                             "times " + printable(setting.baseline)})
      grid.header.push_back(cat(table_title(setting), ": ", what));
  for (const auto& row : rows_of(comparison, numbers)) {
    std::vector<Cell> cells = {{printable(row.title), ""}};
    bool any = false;
    for (const auto& setting : comparison.tables) {
      const auto* group = row.measured ? group_of(setting, row.runs_of) : nullptr;
      const auto cost_of = [](const Group* label, double RunCost::*field) {
        return label && !label->runs.empty() ? cost_spread(*label, field).mean : NAN;
      };
      const auto cost = [&](double RunCost::*field) { return cost_of(group, field); };
      any = any || (group && !group->runs.empty());
      const double bytes = cost(&RunCost::stored_bytes);
      cells.push_back({std::isfinite(bytes) ? human_bytes(bytes) : "-", ""});
      cells.push_back({rounded(cost(&RunCost::adapter_parameters), 0), ""});
      cells.push_back({rounded(cost(&RunCost::step_ms), 1), ""});
      const double plain = cost_of(group_of(setting, setting.baseline), &RunCost::step_ms);
      cells.push_back({rounded(cost(&RunCost::step_ms) / plain, 2), ""});
    }
    if (any) grid.rows.push_back(std::move(cells));
  }
  return grid;
}

std::string csv_value(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "";
}

}  // namespace

PaperTable paper_table_named(const std::string& name) {
  check(name == "paper-vqa" || name == "paper-cit", "--layout ", printable(name), ": is unknown",
        did_you_mean(name, {"paper-vqa", "paper-cit"}));
  return name == "paper-vqa" ? PaperTable::vqa : PaperTable::cit;
}

const char* label_of(PaperTable table) {
  return table == PaperTable::vqa ? "tab:vqa_results" : "tab:cit_results";
}

std::vector<std::string> metrics_of(PaperTable table) {
  if (table == PaperTable::cit) return {"Last", "Avg"};
  return {"AP", "AF", "AP_novel", "AF_novel"};
}

std::vector<PaperNumber> read_paper_numbers(const std::string& path, PaperTable table) {
  const auto records = split_csv(read_file(path, 1 << 20), path);
  const std::vector<std::string> columns = {"table",     "method", "name",  "backbone", "venue",
                                            "benchmark", "metric", "value", "same_as"};
  check(!records.empty() && records[0].fields == columns, path, ": the first line must be ", join(columns, ","));
  std::vector<PaperNumber> out;
  for (size_t i = 1; i < records.size(); ++i) {
    const auto& [fields, place] = records[i];
    check(fields.size() == columns.size(), place, ": has ", fields.size(), " fields, not ", columns.size());
    PaperNumber number{fields[0], fields[1], fields[2], fields[3], fields[5], fields[6], fields[8]};
    check(parse_double(fields[7], number.value), place, ": '", printable(fields[7]), "' is not a number");
    if (number.table == label_of(table)) out.push_back(std::move(number));
  }
  check(!out.empty(), path, ": has no number of table ", label_of(table));
  return out;
}

std::vector<Grid> paper_grids(const Comparison& comparison, const std::vector<PaperNumber>& numbers, PaperTable table) {
  return {score_columns(comparison, numbers, table), cost_columns(comparison, numbers)};
}

std::vector<std::string> paper_notes(const Comparison& comparison, PaperTable table) {
  std::vector<std::string> out = {
      cat("Columns 'paper: ...' are the paper's own numbers (its table ", label_of(table),
          "), on its benchmarks and backbones; all others were measured here, on what their heads name. The two are "
          "not the same experiment unless stream and backbone are."),
      "Mean±standard deviation over runs, with the 95 % bootstrap interval of that mean; none for one run.",
      "joint: forgetting is not defined for it here; the paper writes 0.",
      "(as ...): at equal settings the same to the bit, so those runs stand for it.",
      "† keeps or uses data of earlier tasks: not replay-free."};
  out.insert(out.end(), comparison.notes.begin(), comparison.notes.end());
  for (const auto& line : comparison.skipped) out.push_back("skipped: " + line);
  return out;
}

std::string paper_text(const std::vector<Grid>& grids, const std::vector<std::string>& notes,
                       const std::string& format) {
  std::string out;
  for (const auto& grid : grids) out += (out.empty() ? "" : "\n") + grid_text(grid, format);
  return out + "\n" + notes_text(notes, format);
}

std::vector<PaperEntry> paper_entries(const Comparison& comparison, const std::vector<PaperNumber>& numbers) {
  std::vector<PaperEntry> out;
  for (const auto& row : rows_of(comparison, numbers)) {
    for (const auto& setting : comparison.tables) {
      const auto* group = row.measured ? group_of(setting, row.runs_of) : nullptr;
      if (!group) continue;
      const auto where = table_title(setting);
      for (const size_t m : shown_metrics(comparison, setting))
        out.push_back({row.label, where, comparison.metrics[m], false, group->scores[m]});
      if (group->zero_shot) continue;
      const auto cost = [&](const char* name, double RunCost::*field) {
        out.push_back({row.label, where, name, false, cost_spread(*group, field)});
      };
      cost("bytes_kept", &RunCost::stored_bytes);
      cost("trained_parameters", &RunCost::adapter_parameters);
      cost("step_ms", &RunCost::step_ms);
    }
    for (const auto& column : paper_columns(numbers))
      if (const auto* number = number_of(numbers, row, column)) {
        Spread value;
        value.mean = number->value;
        out.push_back({row.label, cat(column.first, ", ", row.backbone), column.second, true, value});
      }
  }
  return out;
}

std::string paper_csv(const std::vector<PaperEntry>& entries) {
  std::string out = "label,where,metric,source,n,mean,low,high\n";
  for (const auto& e : entries)
    out += fmt::format("{},{},{},{},{},{},{},{}\n", csv_safe_field(e.label), csv_safe_field(e.where), e.metric,
                       e.of_paper ? "paper" : "measured", e.value.n, csv_value(e.value.mean),
                       csv_value(e.value.interval.low), csv_value(e.value.interval.high));
  return out;
}

}  // namespace asr
