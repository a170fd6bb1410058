#include "report/runs_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "io/csv.h"
#include "io/task_names.h"
#include "report/intervals.h"
#include "report/matrix_file.h"
#include "report/run_scores.h"

namespace asr {
namespace {

constexpr std::array<const char*, 11> kScoreColumns = {
    "AP", "AF", "AF_vqacl", "Last", "Avg", "BWT", "MFT", "zero_shot", "AP_novel", "AF_novel", "AF_novel_vqacl"};

constexpr char kNameCharacters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

// One list of columns serves writing, reading and the header. The first seven are a row's identity.
template <class Row>
void visit_columns(Row& row, Run& run) {
  row.text("series", run.series);
  row.text("stream", run.stream);
  row.text("backbone", run.backbone);
  row.text("held_out", run.held_out);
  row.text("label", run.label);
  row.integer("order", run.order);
  row.integer("seed", run.seed);
  row.text("method", run.method);
  row.flag("replay_free", run.replay_free);
  row.text("split", run.split);
  row.text("settings", run.settings);
  row.text("head", run.head);
  row.number("learning_rate", run.rate);
  row.number("num_train_epochs", run.epochs);
  row.text("strength", run.strength);
  for (const char* name : kScoreColumns) row.score(name, run.scores);
  row.number("outside", run.outside);
  row.number("step_ms", run.cost.step_ms);
  row.number("train_seconds", run.cost.train_seconds);
  row.number("eval_seconds", run.cost.eval_seconds);
  row.number("stored_bytes", run.cost.stored_bytes);
  row.number("adapter_parameters", run.cost.adapter_parameters);
  row.number("passes", run.cost.passes);
  row.tasks("tasks", run.tasks);
  row.matrix("matrix", run.matrix);
  row.matrix("novel", run.novel);
}

using RowKey = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string, std::string,
                          int64_t, int64_t>;

RowKey key_of(const Run& run) {
  return {run.series,        run.stream, run.backbone, run.held_out, run.scored_split(),
          run.answer_head(), run.label,  run.order,    run.seed};
}

// A spreadsheet must not take a name for a formula: such a text gets an apostrophe in front, which the reader takes
// away; so does one that begins with an apostrophe, or it would lose its own.
std::string guarded(const std::string& text) {
  const bool risky = !text.empty() && std::string("=+-@'\t\r").find(text[0]) != std::string::npos;
  return risky ? "'" + text : text;
}

std::string unguarded(const std::string& text) {
  return !text.empty() && text[0] == '\'' ? text.substr(1) : text;
}

// "2 40 60", without the tasks at the end that have no score yet.
std::string stage_text(size_t stage, const std::vector<double>& scores) {
  size_t count = scores.size();
  while (count > 0 && std::isnan(scores[count - 1])) --count;
  std::string out = std::to_string(stage);
  for (size_t b = 0; b < count; ++b) out += std::isnan(scores[b]) ? " -" : fmt::format(" {}", scores[b]);
  return out;
}

std::string matrix_cell(const ScoreMatrix& matrix) {
  std::vector<std::string> stages;
  if (!matrix.zero_shot.empty()) stages.push_back(stage_text(0, matrix.zero_shot));
  for (size_t a = 0; a < matrix.rows.size(); ++a) stages.push_back(stage_text(a + 1, matrix.rows[a]));
  return join(stages, "; ");
}

// The cell as the text of a matrix.csv, so that both are read by the same rules.
std::string matrix_text_of(const std::string& cell, const std::vector<std::string>& tasks, const std::string& place) {
  std::string out = "stage";
  for (const auto& task : tasks) out += "," + csv_field(task);
  std::istringstream stages(cell);
  for (std::string stage; std::getline(stages, stage, ';');) {
    std::istringstream words(stage);
    size_t count = 0;
    out += "\n";
    for (std::string word; words >> word; ++count) out += cat(count > 0 ? "," : "", word == "-" ? "" : csv_field(word));
    check(count >= 1 && count <= tasks.size() + 1, place, ": '", printable(stage), "' is not a stage and up to ",
          tasks.size(), " scores");
    out += std::string(tasks.size() + 1 - count, ',');
  }
  return out + "\n";
}

class RowWriter {
 public:
  void text(const char* name, const std::string& value) { add(name, csv_field(guarded(value))); }
  void integer(const char* name, int64_t value) { add(name, std::to_string(value)); }
  void flag(const char* name, bool value) { add(name, value ? "1" : "0"); }
  void number(const char* name, double value) { add(name, std::isfinite(value) ? fmt::format("{:.10g}", value) : ""); }
  void score(const char* name, const NamedScores& scores) {
    const auto place = scores.find(name);
    const bool known = place != scores.end() && std::isfinite(place->second);
    add(name, known ? fmt::format("{:.6g}", place->second) : "");
  }
  void tasks(const char* name, const std::vector<std::string>& values) {
    std::vector<std::string> fields;
    for (const auto& value : values) fields.push_back(csv_field(value));
    text(name, join(fields, ","));
  }
  void matrix(const char* name, const ScoreMatrix& value) { add(name, matrix_cell(value)); }

  const std::vector<std::string>& names() const { return names_; }
  std::string header() const { return join(names_, ",") + "\n"; }
  std::string line() const { return join(fields_, ",") + "\n"; }

 private:
  void add(const char* name, std::string field) {
    names_.emplace_back(name);
    fields_.push_back(std::move(field));
  }

  std::vector<std::string> names_, fields_;
};

using Columns = std::map<std::string, size_t>;

// A column that the file lacks is unknown, unless a row means nothing without it.
class RowReader {
 public:
  RowReader(const Columns& columns, const CsvRecord& record) : columns_(columns), record_(record) {}

  void text(const char* name, std::string& value) { value = unguarded(field(name)); }
  void integer(const char* name, int64_t& value) { require(name, parse_int(field(name), value), "a whole number"); }
  void flag(const char* name, bool& value) {
    const auto given = field(name);
    require(name, given == "0" || given == "1", "0 or 1");
    value = given == "1";
  }
  void number(const char* name, double& value) {
    value = kUnknown;
    require(name, field(name).empty() || parse_double(field(name), value), "a number");
  }
  void score(const char* name, NamedScores&) {
    if (columns_.count(name) == 0) return;
    number(name, written[name]);
  }
  void tasks(const char* name, std::vector<std::string>& values) {
    values = split_csv_line(unguarded(field(name)), where(name));
    check_names(values, where(name));
  }
  void matrix(const char* name, ScoreMatrix&) { cells[name] = field(name); }

  std::string where(const char* name) const { return cat(record_.place, ": column '", name, "'"); }

  NamedScores written;                       // what the file says of them; the matrices decide
  std::map<std::string, std::string> cells;  // the matrices, to be read once tasks and method are known

 private:
  std::string field(const char* name) const {
    const auto place = columns_.find(name);
    return place == columns_.end() ? "" : record_.fields[place->second];
  }
  void require(const char* name, bool ok, const char* what) const {
    check(ok, where(name), " holds '", printable(field(name)), "', not ", what);
  }

  const Columns& columns_;
  const CsvRecord& record_;
};

Columns columns_of(const CsvRecord& header) {
  Run run;
  RowWriter row;
  visit_columns(row, run);
  const auto& known = row.names();
  Columns out;
  for (size_t i = 0; i < header.fields.size(); ++i) {
    const auto& name = header.fields[i];
    check(std::count(known.begin(), known.end(), name) > 0, header.place, ": a table of runs has no column '",
          printable(name), "'", did_you_mean(name, known));
    check(out.emplace(name, i).second, header.place, ": column '", printable(name), "' stands twice");
  }
  for (const char* name : {"stream", "backbone", "label", "order", "seed", "method", "replay_free", "tasks", "matrix"})
    check(out.count(name) > 0, header.place, ": column '", name, "' is missing; is this a table of runs?");
  return out;
}

Run run_of(const Columns& columns, const CsvRecord& record, const RunsTable& table, std::vector<std::string>& notes) {
  check(record.fields.size() == columns.size(), record.place, ": has ", record.fields.size(),
        " fields but the header names ", columns.size(), " columns");
  Run run;
  run.root = table.name();
  run.folder = run.root + record.place.substr(table.path.size());
  RowReader row(columns, record);
  visit_columns(row, run);
  for (const char* name : {"stream", "backbone", "label", "method"})
    check(!record.fields[columns.at(name)].empty(), row.where(name), " is empty");
  std::vector<std::string> warnings;
  const auto place = row.where("matrix"), text = matrix_text_of(row.cells["matrix"], run.tasks, place);
  run.one_stage = is_joint_csv(text, place);
  take_matrix(run, run.joint() ? parse_joint_csv(text, place) : parse_score_csv(text, place, warnings), place);
  if (!row.cells["novel"].empty()) {
    const auto novel = row.where("novel");
    take_novel_matrix(run, parse_score_csv(matrix_text_of(row.cells["novel"], run.tasks, novel), novel, warnings),
                      novel);
  }
  if (!warnings.empty()) notes.push_back(cat(record.place, ": ", warnings.size(), " scores of unseen tasks ignored"));
  const auto differences = contradictions(row.written, run, 1e-5);
  if (!differences.empty())
    notes.push_back(cat(record.place, ": the columns contradict the score matrix (", differences,
                        "); the scores shown are those of the matrix"));
  return run;
}

std::string table_text(const std::map<RowKey, Run>& runs) {
  std::string out;
  for (const auto& entry : runs) {
    Run run = entry.second;
    RowWriter row;
    visit_columns(row, run);
    if (out.empty()) out = row.header();
    out += row.line();
  }
  return out;
}

}  // namespace

RunsTable runs_table(const std::string& given) {
  constexpr char kEnd[] = ".csv:";
  const auto place = given.rfind(kEnd);
  std::error_code error;
  if (place == std::string::npos || std::filesystem::exists(given, error)) return {given, ""};
  const auto colon = place + sizeof kEnd - 2;
  const auto series = given.substr(colon + 1);
  check(!series.empty() && series.find_first_not_of(kNameCharacters) == std::string::npos, "'", printable(given),
        "': a series is named in letters, digits, '-', '_' and '.'");
  return {given.substr(0, colon), series};
}

namespace {

std::vector<Run> all_runs(const RunsTable& table, std::vector<std::string>& notes) {
  const auto& path = table.path;
  const auto records = split_csv(read_file(path, 256 << 20), path);
  check(!records.empty(), path, ":1: is empty; expected a header of column names");
  const auto columns = columns_of(records[0]);
  std::vector<Run> out;
  std::map<RowKey, std::string> seen;
  for (size_t i = 1; i < records.size(); ++i) {
    out.push_back(run_of(columns, records[i], table, notes));
    const auto [place, added] = seen.emplace(key_of(out.back()), records[i].place);
    check(added, records[i].place, ": is the same run as ", place->second, " (", printable(out.back().name(), 200),
          "); remove one");
  }
  check(!out.empty(), path, ":1: has a header but no run");
  return out;
}

}  // namespace

std::vector<Run> read_runs_csv(const RunsTable& table, std::vector<std::string>& notes) {
  auto out = all_runs(table, notes);
  std::set<std::string> known;
  for (const auto& run : out) known.insert(run.series);
  const std::vector<std::string> names(known.begin(), known.end());
  if (table.series.empty()) {
    check(known.size() == 1, table.path, ": holds runs of several series (", printable(join(names, ", "), 500),
          "); name one, as in ", table.path, ":", names.back());
    return out;
  }
  check(known.count(table.series) > 0, table.path, ": has no series '", table.series, "'",
        did_you_mean(table.series, names), "; it has ", printable(join(names, ", "), 500));
  out.erase(std::remove_if(out.begin(), out.end(), [&](const Run& run) { return run.series != table.series; }),
            out.end());
  return out;
}

RunsMerge merge_runs_csv(const RunsTable& table, const std::vector<Run>& runs) {
  const auto& path = table.path;
  check(std::filesystem::path(path).extension() == ".csv", "--csv ", path, ": a table of runs ends in .csv");
  std::map<RowKey, Run> rows;
  std::vector<std::string> notes;
  std::error_code error;
  if (std::filesystem::exists(path, error))
    for (auto& run : all_runs({path, ""}, notes)) rows[key_of(run)] = std::move(run);
  RunsMerge merge;
  for (Run run : runs) {
    run.series = table.series;
    if (!run.complete) {
      merge.left_out.push_back(run.folder + ": not complete; not written to " + path);
      continue;
    }
    check(!ends_with(run.label, "@" + run.root), run.folder, ": another run here has the same label, seed and order (",
          printable(run.name(), 200), "); give one another label");
    const bool added = rows.insert_or_assign(key_of(run), run).second;
    ++(added ? merge.added : merge.replaced);
  }
  check(!rows.empty(), path, ": no run is complete; nothing to write");
  merge.rows = rows.size();
  write_file_atomically(path, table_text(rows));
  return merge;
}

}  // namespace asr
