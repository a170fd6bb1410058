// asr compare: tables over finished runs, with intervals and paired differences against a baseline.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

#include "base/assets.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/summary.h"
#include "report/braking.h"
#include "report/paper_layout.h"
#include "report/protocol.h"
#include "report/runs_csv.h"
#include "report/tables.h"
#include "report/terminal.h"

namespace asr {
namespace {

struct CompareArguments {
  std::vector<std::string> runs;
  std::string format = "text", against, metrics, csv, protocol, layout;
};

std::string rendered(const Comparison& comparison, const std::string& format) {
  if (format == "markdown") return markdown_tables(comparison);
  if (format == "latex") return latex_tables(comparison);
  if (format == "csv") return csv_table(comparison);
  return text_tables(comparison);
}

void write_runs(const std::string& path, const RunSet& set) {
  const auto merge = merge_runs_csv(runs_table(path), set.runs);
  for (const auto& line : merge.left_out) log_warn(printable(line, 500));
  log_info("written: ", path, ", ", merge.rows, " runs (", merge.added, " new, ", merge.replaced, " replaced)");
}

// A folder knows all its options; which of them is the strength of its row only the protocol says.
void name_strengths(RunSet& set, const Protocol& protocol) {
  for (auto& run : set.runs) {
    const auto* row = protocol.row(run.label);
    if (row && run.strength.empty() && !run.option(row->strength).empty())
      run.strength = row->strength + "=" + run.option(row->strength);
  }
}

// The paper's tables: printed alone, since their metrics are few.
// Points of a search are no rows of a table that is reported.
Comparison without_searches(Comparison comparison) {
  auto& tables = comparison.tables;
  tables.erase(std::remove_if(tables.begin(), tables.end(), is_search), tables.end());
  return comparison;
}

void print_paper_layout(const CompareArguments& arguments, const Comparison& comparison, const Common& common) {
  const auto table = paper_table_named(arguments.layout);
  const auto numbers = read_paper_numbers(find_asset("paper-tables.csv"), table);
  const auto entries = paper_entries(comparison, numbers);
  if (common.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& e : entries)
      list.push_back({{"label", e.label},
                      {"where", e.where},
                      {"metric", e.metric},
                      {"source", e.of_paper ? "paper" : "measured"},
                      {"n", e.value.n},
                      {"mean", finite_or_null(e.value.mean)},
                      {"low", finite_or_null(e.value.interval.low)},
                      {"high", finite_or_null(e.value.interval.high)}});
    return print_json({{"layout", arguments.layout}, {"table", label_of(table)}, {"numbers", list}});
  }
  if (arguments.format == "csv")
    std::cout << paper_csv(entries);
  else
    std::cout << paper_text(paper_grids(comparison, numbers, table), paper_notes(comparison, table), arguments.format);
}

// Colours are for people at a terminal who did not ask for none (https://no-color.org).
bool draws_pictures(const CompareArguments& arguments) {
  const char* none = std::getenv("NO_COLOR");
  return arguments.format == "text" && isatty(STDOUT_FILENO) != 0 && (!none || *none == 0);
}

void compare(const CompareArguments& arguments, const Common& common) {
  CompareOptions options;
  options.against = arguments.against;
  if (!arguments.metrics.empty()) options.metrics = parse_metric_list(arguments.metrics);
  if (!arguments.layout.empty()) {
    check(arguments.metrics.empty(), "--layout has its own metrics; leave --metric out");
    options.metrics = metrics_of(paper_table_named(arguments.layout));
  }
  std::optional<Protocol> protocol;
  if (!arguments.protocol.empty()) {
    protocol = parse_protocol(read_file(arguments.protocol, 1 << 20), arguments.protocol);
    options.protocol = &*protocol;
  }
  auto set = load_runs(arguments.runs);
  if (protocol) name_strengths(set, *protocol);
  const auto comparison = compare_runs(set, options);
  if (!arguments.csv.empty()) write_runs(arguments.csv, set);
  if (!arguments.layout.empty()) return print_paper_layout(arguments, without_searches(comparison), common);
  if (common.json)
    print_json(comparison_json(comparison));
  else
    std::cout << (draws_pictures(arguments) ? terminal_pictures(comparison) : "")
              << rendered(comparison, arguments.format);
  // CSV has no room for them; the other formats end with these lines.
  if (!common.json && arguments.format == "csv")
    for (const auto& line : comparison.skipped) log_warn("skipped: ", printable(line, 500));
  if (!common.json && arguments.format == "csv")
    for (const auto& line : comparison.notes) log_warn(printable(line, 2000));
  if (set.out.empty()) return;
  if (access(set.out.c_str(), W_OK) != 0)
    return log_info(set.out, ": not writable; compare.md and compare.csv not written");
  write_tables(set.out, comparison);
  log_info("written: ", set.out, "/compare.md and compare.csv");
}

}  // namespace

void add_compare_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("compare", "tables over runs: means, intervals, differences to a baseline");
  auto arguments = std::make_shared<CompareArguments>();
  command
      ->add_option("RUN", arguments->runs,
                   "output folders of asr run, method folders in them, or tables of runs: FILE.csv, or FILE.csv:SERIES "
                   "for some of its runs")
      ->required();
  command->add_option("--format", arguments->format, "text | markdown | latex | csv")
      ->check(CLI::IsMember({"text", "markdown", "latex", "csv"}))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--against", arguments->against, "label of the baseline (default: vanilla where present)")
      ->type_name("LABEL");
  command
      ->add_option("--metric", arguments->metrics,
                   "scores to show, e.g. AP,AF (default AP,AF,Avg,BWT,MFT, and AP_novel,AF_novel where there are any)")
      ->type_name("LIST");
  command
      ->add_option("--csv", arguments->csv,
                   "table of runs to which these are added, e.g. results/world-10.csv:methods, where methods names the "
                   "series")
      ->type_name("FILE");
  command
      ->add_option("--protocol", arguments->protocol,
                   "tests the contrasts of this file (Student's t, and Holm where they are primary) and shows what was "
                   "chosen for each row")
      ->type_name("FILE");
  command
      ->add_option("--layout", arguments->layout,
                   "paper-vqa | paper-cit: one of the paper's two tables, measured, with its own numbers beside")
      ->type_name("NAME");
  command->callback([arguments, &common] { compare(*arguments, common); });
}

}  // namespace asr
