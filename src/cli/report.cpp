// asr report: one HTML file over finished runs, with tables and figures.
#include <iostream>
#include <memory>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/summary.h"
#include "report/figure_files.h"

namespace asr {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output, figures, against;
};

size_t write_figures(const std::string& folder, const Comparison& comparison) {
  make_folders(folder);
  const auto files = figure_files(comparison);
  for (const auto& file : files) write_file_atomically(folder + "/" + file.name, file.content);
  return files.size();
}

void report(const ReportArguments& arguments, const Common& common) {
  const auto set = load_runs(arguments.runs);
  check(!arguments.output.empty() || !set.out.empty(),
        "several folders, or a method folder, were named; say where the ", "report goes with -o FILE.html");
  const std::string path = arguments.output.empty() ? set.out + "/report.html" : arguments.output;
  CompareOptions options;
  options.against = arguments.against;
  const auto comparison = compare_runs(set, options);
  const size_t bytes = write_report(path, set, comparison);
  const size_t drawings = arguments.figures.empty() ? 0 : write_figures(arguments.figures, comparison);
  for (const auto& line : comparison.skipped) log_warn("skipped: ", printable(line, 500));
  for (const auto& line : comparison.notes) log_warn(printable(line, 2000));
  if (common.json)
    print_json({{"report", path},
                {"runs", set.runs.size()},
                {"bytes", bytes},
                {"drawings", drawings},
                {"skipped", comparison.skipped}});
  else
    std::cout << set.runs.size() << (set.runs.size() == 1 ? " run" : " runs") << " -> " << path << " ("
              << human_bytes(static_cast<double>(bytes)) << ")\n";
  if (!common.json && drawings > 0)
    std::cout << drawings << " drawings and tables of their numbers -> " << arguments.figures << "\n";
}

}  // namespace

void add_report_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("report", "one HTML file over runs: tables, score matrices, curves, attention");
  auto arguments = std::make_shared<ReportArguments>();
  command->add_option("RUN", arguments->runs, "output folders of asr run, method folders in them, or tables of runs")
      ->required();
  command->add_option("-o,--output", arguments->output, "HTML file to write (default: report.html in the one RUN)")
      ->type_name("FILE");
  command
      ->add_option("--figures", arguments->figures,
                   "folder for the page's drawings, each an SVG file, and for the numbers behind them as CSV")
      ->type_name("DIR");
  command->add_option("--against", arguments->against, "label of the baseline (default: vanilla where present)")
      ->type_name("LABEL");
  command->callback([arguments, &common] { report(*arguments, common); });
}

}  // namespace asr
