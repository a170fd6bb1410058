#include "cli/tune_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "base/text.h"
#include "io/csv.h"
#include "report/protocol.h"
#include "report/runs_csv.h"
#include "report/t_test.h"

namespace asr {
namespace {

using nlohmann::json;

Protocol chosen_rows(const ProtocolArguments& arguments) {
  auto out = parse_protocol(read_file(arguments.path, 1 << 20), arguments.path);
  if (arguments.brief) {
    out.search = SearchForm::line;
    out.tuning_seeds.resize(1);
    out.finalists = 1;
  }
  if (arguments.rows.empty()) return out;
  std::vector<std::string> known;
  for (const auto& row : out.rows) known.push_back(row.label);
  std::vector<ProtocolRow> kept;
  for (const auto& label : arguments.rows) {
    check(std::count(known.begin(), known.end(), label) > 0, "--rows: '", printable(label), "' is no row of ",
          arguments.path, did_you_mean(label, known));
    kept.push_back(*out.row(label));
  }
  out.rows = std::move(kept);
  return out;
}

// A strength that the row's method does not read would search the same point over and over.
void check_strength(const ProtocolRow& row) {
  const auto parts = method_parts(row.method);
  const auto section = row.strength.substr(0, row.strength.find('.'));
  for (const auto& info : method_infos())
    check(section != info.name || section == row.strength || std::count(parts.begin(), parts.end(), section) > 0,
          "row '", printable(row.label), "': its method ", printable(row.method), " does not read the strength ",
          printable(row.strength));
}

// What the tables say of a row: what was searched, chosen and spent.
struct RowOutcome {
  const ProtocolRow* row = nullptr;
  GridPoint chosen;
  double tune_ap = kUnknown, tune_seconds = 0;
  size_t tune_runs = 0, diverged = 0;
  std::string finalists, edge;
  std::vector<Run> tests;
};

// The choice of another setting: chosen.csv as write_chosen leaves it.
std::vector<RowOutcome> transferred_choice(const Protocol& protocol, const std::string& path) {
  const auto records = split_csv(read_file(path, 1 << 20), path);
  check(!records.empty(), path, ": is empty; name the chosen.csv of a finished search");
  const auto column = [&](const char* name) {
    const auto& names = records[0].fields;
    const auto place = std::find(names.begin(), names.end(), name);
    check(place != names.end(), records[0].place, ": column '", name, "' is missing; is this a chosen.csv?");
    return static_cast<size_t>(place - names.begin());
  };
  const size_t label = column("label"), rate = column("learning_rate"), strength = column("strength"),
               value = column("value");
  std::vector<RowOutcome> out;
  for (const auto& row : protocol.rows) {
    RowOutcome outcome;
    for (size_t i = 1; i < records.size(); ++i) {
      const auto& fields = records[i].fields;
      check(fields.size() == records[0].fields.size(), records[i].place, ": has ", fields.size(), " fields");
      if (fields[label] != row.label) continue;
      outcome.chosen = {{"learning_rate", fields[rate], path}, {fields[strength], fields[value], path}};
    }
    check(!outcome.chosen.empty(), path, ": has no line for row '", printable(row.label),
          "'; leave it out with --rows");
    outcome.row = &row;
    outcome.edge = "transferred";
    out.push_back(std::move(outcome));
  }
  return out;
}

class ProtocolRun {
 public:
  ProtocolRun(const ProtocolArguments& arguments)
      : protocol_(chosen_rows(arguments)), trials_("tune", arguments.trials), transferred_(arguments.chosen) {
    for (const auto& row : protocol_.rows) check_strength(row);
    for (const auto& table : arguments.tables) trials_.know(table);
    std::error_code none;
    check(transferred_.empty() || !std::filesystem::equivalent(transferred_, trials_.root() + "/chosen.csv", none),
          "--chosen: ", transferred_, " is this output_dir's own; choose another output_dir for the transfer");
    for (const auto& row : protocol_.rows)  // a typing error in a row costs nothing
      for (const auto& point : row.points()) trials_.check_trial(trial(row, point, protocol_.tuning_seeds[0], "tune"));
  }

  // The steps, each over all rows; false where --list-only has printed what is missing.
  bool run() {
    if (!transferred_.empty()) return test(transferred_choice(protocol_, transferred_));
    if (!trials_.settle(runnable()) || !trials_.settle(runnable())) return false;
    auto list = runnable();
    for (const auto& row : protocol_.rows)
      for (const size_t i : finalists_of(protocol_, row, scores(row)))
        for (const int64_t seed : protocol_.tuning_seeds) list.push_back(trial(row, row.points()[i], seed, "tune"));
    if (!trials_.settle(list)) return false;
    std::vector<RowOutcome> outcomes;
    for (const auto& row : protocol_.rows) outcomes.push_back(outcome(row));
    return test(std::move(outcomes));
  }

  std::string table() const;
  json result() const;

 private:
  // Runs of the search with the first seed that can be made now: those that follow from a row's scores once it has
  // them.
  std::vector<Trial> runnable() const {
    std::vector<Trial> out;
    for (const auto& row : protocol_.rows) {
      const auto points = row.points();
      const auto of = [&](size_t point) { return trial(row, points[point], protocol_.tuning_seeds[0], "tune"); };
      auto list = first_points(protocol_, row);
      const bool scored =
          std::all_of(list.begin(), list.end(), [&](size_t point) { return trials_.settled(of(point)); });
      if (scored) list = searched_points(protocol_, row, scores(row));
      for (const size_t point : list) out.push_back(of(point));
    }
    return out;
  }
  // What was chosen, with the other seeds.
  bool test(std::vector<RowOutcome> outcomes) {
    outcomes_ = std::move(outcomes);
    std::vector<Trial> list;
    for (const auto& outcome : outcomes_)
      for (const int64_t seed : protocol_.test_seeds)
        list.push_back(trial(*outcome.row, outcome.chosen, seed, trials_.reported_split()));
    for (const auto& one : list) trials_.check_trial(one);
    write_chosen();
    if (!trials_.settle(list)) return false;
    for (auto& outcome : outcomes_)
      for (const int64_t seed : protocol_.test_seeds)
        if (auto run = trials_.result(trial(*outcome.row, outcome.chosen, seed, trials_.reported_split())))
          outcome.tests.push_back(with_strength(*run, *outcome.row));
    write_chosen();
    write_runs();
    return true;
  }
  Trial trial(const ProtocolRow& row, const GridPoint& point, int64_t seed, const std::string& split) const {
    const auto name = point_name(point);
    Trial out{cat(split, "/", row.label, "/", name, "/seed-", seed), {}};
    const auto set = [&](const std::string& key, const std::string& value) {
      out.sets.push_back({key, value, protocol_.path});
    };
    set("method", row.method);
    set("label", split == "tune" ? row.label + ":" + name : row.label);
    set("seeds", cat("[", seed, "]"));
    set("eval_split", split);
    out.sets.insert(out.sets.end(), row.sets.begin(), row.sets.end());
    out.sets.insert(out.sets.end(), point.begin(), point.end());
    return out;
  }
  PointScore scores(const ProtocolRow& row) const {
    return [this, &row, points = row.points()](size_t point, int64_t seed) {
      const auto run = trials_.result(trial(row, points[point], seed, "tune"));
      return run ? run->score("AP") : kUnknown;
    };
  }
  static Run with_strength(Run run, const ProtocolRow& row) {
    if (!run.from_table()) run.strength = row.strength + "=" + run.option(row.strength);
    return run;
  }
  // The runs of the search; those that diverged have none.
  std::vector<Run> tuning_runs(const ProtocolRow& row, size_t& planned) const {
    std::vector<Run> out;
    const auto finalists = finalists_of(protocol_, row, scores(row));
    const auto points = row.points();
    planned = 0;
    for (const size_t i : searched_points(protocol_, row, scores(row)))
      for (const int64_t seed : protocol_.tuning_seeds) {
        const bool further = std::count(finalists.begin(), finalists.end(), i) > 0;
        if (seed != protocol_.tuning_seeds[0] && !further) continue;
        ++planned;
        if (auto run = trials_.result(trial(row, points[i], seed, "tune"))) out.push_back(with_strength(*run, row));
      }
    return out;
  }
  RowOutcome outcome(const ProtocolRow& row) const;
  void write_chosen() const;
  void write_runs() const;

  Protocol protocol_;
  Trials trials_;
  std::string transferred_;  // the file of another setting's choice
  std::vector<RowOutcome> outcomes_;
};

// A best value at the end of its numbers may have a better one beyond.
std::string edges_of(const ProtocolRow& row, const GridPoint& chosen) {
  std::vector<std::string> out;
  const auto look = [&](const std::vector<std::string>& values, const Assignment& at) {
    double low = INFINITY, high = -INFINITY, value = 0, own = 0;
    if (!parse_double(at.value, own)) return;
    for (const auto& text : values) {
      if (!parse_double(text, value)) return;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (own == low || own == high) out.push_back(cat(at.key, " at the ", own == low ? "low" : "high", " end"));
  };
  look(row.rates, chosen[0]);
  look(row.values, chosen[1]);
  return join(out, "; ");
}

RowOutcome ProtocolRun::outcome(const ProtocolRow& row) const {
  RowOutcome out;
  out.row = &row;
  const auto points = row.points();
  const auto best = chosen_of(protocol_, row, scores(row));
  check(best.found, "row '", row.label, "': every run of its search diverged; give it lower rates in ", protocol_.path);
  out.chosen = points[best.point];
  out.tune_ap = best.mean;
  std::vector<std::string> finalists;
  for (const size_t i : finalists_of(protocol_, row, scores(row))) finalists.push_back(point_name(points[i]));
  out.finalists = join(finalists, " ");
  out.edge = edges_of(row, out.chosen);
  const auto runs = tuning_runs(row, out.tune_runs);
  out.diverged = out.tune_runs - runs.size();
  for (const auto& run : runs) out.tune_seconds += run.cost.train_seconds + run.cost.eval_seconds;
  return out;
}

double mean_cost_of(const std::vector<Run>& runs, double RunCost::*field) {
  std::vector<double> values;
  for (const auto& run : runs) values.push_back(run.cost.*field);
  return spread_of(values).mean;
}

double epochs_of(const GridPoint& point, const std::vector<Run>& tests) {
  double out = kUnknown;
  for (const auto& a : point)
    if (a.key == "num_train_epochs" && parse_double(a.value, out)) return out;
  return tests.empty() ? kUnknown : tests[0].epochs;
}

std::string csv_value(double value) {
  return std::isfinite(value) ? fmt::format("{:.8g}", value) : "";
}

// Lines of rows that this call leaves alone, where the file has the same columns.
std::string other_lines(const std::string& path, const std::string& header, const std::vector<RowOutcome>& own) {
  if (!path_exists(path)) return "";
  const auto text = read_file(path, 1 << 20);
  if (text.rfind(header, 0) != 0) return "";
  std::string out;
  const auto records = split_csv(text, path);
  for (size_t r = 1; r < records.size(); ++r) {
    const auto& fields = records[r].fields;
    const auto mine = [&](const RowOutcome& o) { return o.row->label == fields[0]; };
    if (std::any_of(own.begin(), own.end(), mine)) continue;
    for (size_t i = 0; i < fields.size(); ++i) out += (i ? "," : "") + csv_safe_field(fields[i]);
    out += "\n";
  }
  return out;
}

void ProtocolRun::write_chosen() const {
  const std::string header =
      "label,method,searched_rates,strength,searched_values,points,tune_runs,diverged,tune_seconds,finalists,"
      "learning_rate,value,num_train_epochs,tune_AP,edge,test_runs,trained_parameters,bytes_kept,passes\n";
  const auto path = trials_.root() + "/chosen.csv";
  std::string out = header + other_lines(path, header, outcomes_);
  for (const auto& o : outcomes_) {
    const auto& row = *o.row;
    const std::vector<std::string> fields = {row.label,
                                             row.method,
                                             join(row.rates, " "),
                                             row.strength,
                                             join(row.values, " "),
                                             cat(protocol_.budget(row)),
                                             cat(o.tune_runs),
                                             cat(o.diverged),
                                             csv_value(std::round(o.tune_seconds)),
                                             o.finalists,
                                             o.chosen[0].value,
                                             o.chosen[1].value,
                                             csv_value(epochs_of(o.chosen, o.tests)),
                                             csv_value(o.tune_ap),
                                             o.edge,
                                             cat(o.tests.size()),
                                             csv_value(mean_cost_of(o.tests, &RunCost::adapter_parameters)),
                                             csv_value(mean_cost_of(o.tests, &RunCost::stored_bytes)),
                                             csv_value(mean_cost_of(o.tests, &RunCost::passes))};
    for (size_t i = 0; i < fields.size(); ++i) out += (i ? "," : "") + csv_safe_field(fields[i]);
    out += "\n";
  }
  make_folders(trials_.root());
  write_file_atomically(path, out);
}

void ProtocolRun::write_runs() const {
  std::vector<Run> all;
  for (const auto& o : outcomes_) {
    size_t planned = 0;
    for (auto& run : tuning_runs(*o.row, planned)) all.push_back(std::move(run));
    all.insert(all.end(), o.tests.begin(), o.tests.end());
  }
  merge_runs_csv({trials_.root() + "/runs.csv", ""}, all);
}

MeanTest test_ap(const RowOutcome& o) {
  std::vector<double> values;
  for (const auto& run : o.tests) values.push_back(run.score("AP"));
  return paired_t(values);
}

std::string ProtocolRun::table() const {
  std::vector<std::vector<std::string>> rows = {{"label", "chosen on tune", "AP on tune", "runs", "AP on test", ""}};
  for (const auto& o : outcomes_)
    rows.push_back({o.row->label, point_name(o.chosen), number(o.tune_ap, 1), cat(o.tune_runs),
                    number(test_ap(o).mean, 1), o.edge});
  return text_table(rows) + cat("runs: ", trials_.root(), "/runs.csv, search: ", trials_.root(),
                                "/chosen.csv; tables: asr compare ", trials_.root(), "/runs.csv --protocol ",
                                protocol_.path, "\n");
}

json ProtocolRun::result() const {
  json rows = json::array();
  for (const auto& o : outcomes_) {
    json tests = json::array();
    for (const auto& run : o.tests) tests.push_back({{"seed", run.seed}, {"AP", finite_or_null(run.score("AP"))}});
    rows.push_back({{"label", o.row->label},
                    {"chosen", point_name(o.chosen)},
                    {"tune_AP", finite_or_null(o.tune_ap)},
                    {"tune_runs", o.tune_runs},
                    {"diverged", o.diverged},
                    {"edge", o.edge},
                    {"tests", tests}});
  }
  return {{"rows", rows}, {"runs", trials_.root() + "/runs.csv"}, {"chosen", trials_.root() + "/chosen.csv"}};
}

}  // namespace

void tune_by_protocol(const ProtocolArguments& arguments, const Common& common) {
  ProtocolRun run(arguments);
  if (!run.run()) return;
  if (common.json) return print_json(run.result());
  std::cout << run.table();
}

}  // namespace asr
