// asr report: one HTML file over finished runs, with tables and figures.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/summary.h"
#include "cli/version.h"
#include "report/figure_files.h"
#include "report/progress_page.h"

namespace asr {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output, figures, against;
  bool watch = false;
  int seconds = 10;
};

// What cannot be read is what the page names already: the same figures are drawn.
size_t write_figures(const std::string& folder, const Comparison& comparison) {
  make_folders(folder);
  std::vector<std::string> unread;
  const auto files = figure_files(comparison, unread);
  for (const auto& file : files) write_file_atomically(folder + "/" + file.name, file.content);
  return files.size();
}

// Writes the page anew until every run is complete; only files are read, so the training need not be on this machine.
// A report may replace a report, and nothing else.
void check_report_place(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return;
  std::string begin(9, ' ');
  std::ifstream(path).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  check(begin == "<!doctype", path, ": is there and is no report; name another file");
}

// False: a signal ended it before that.
bool watch(const ReportArguments& arguments) {
  check(!arguments.output.empty() || arguments.runs.size() == 1, "--watch with several folders: say where the report ",
        "goes with -o FILE.html");
  const std::string path = arguments.output.empty() ? arguments.runs[0] + "/report.html" : arguments.output;
  check_report_place(path);
  const HearSignals signals("stops watching; the runs go on");
  std::cout << "watching, every " << arguments.seconds << " s -> " << path << "\n" << std::flush;
  for (;;) {
    write_file_atomically(path, watched_page(arguments.runs, version_text(), arguments.seconds));
    const auto runs = read_progress(arguments.runs);
    if (!runs.empty() && std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run.complete; }))
      return true;
    for (int tenth = 0; tenth < 10 * arguments.seconds; ++tenth) {
      if (interrupted() != 0) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

void report(const ReportArguments& arguments, const Common& common) {
  if (arguments.watch && !watch(arguments)) return;
  const auto set = load_runs(arguments.runs, Damaged::is_skipped);
  check(!arguments.output.empty() || !set.out.empty(),
        "several folders, or a method folder, were named; say where the ", "report goes with -o FILE.html");
  const std::string path = arguments.output.empty() ? set.out + "/report.html" : arguments.output;
  check_report_place(path);
  CompareOptions options;
  options.against = arguments.against;
  options.skip_mixed = true;
  const auto comparison = compare_runs(set, options);
  const auto page = write_report(path, set, comparison);
  const size_t drawings = arguments.figures.empty() ? 0 : write_figures(arguments.figures, comparison);
  check(page.unread.empty(), path,
        ": is written without what cannot be read: ", printable(join(page.unread, "; "), 500));
  for (const auto& line : comparison.skipped) log_warn("skipped: ", printable(line, 500));
  for (const auto& line : comparison.notes) log_warn(printable(line, 2000));
  if (common.json)
    print_json({{"report", path},
                {"runs", set.runs.size()},
                {"bytes", page.html.size()},
                {"drawings", drawings},
                {"skipped", comparison.skipped}});
  else
    std::cout << set.runs.size() << (set.runs.size() == 1 ? " run" : " runs") << " -> " << path << " ("
              << human_bytes(static_cast<double>(page.html.size())) << ")\n";
  if (!common.json && drawings > 0)
    std::cout << drawings << " drawings and tables of their numbers -> " << arguments.figures << "\n";
}

}  // namespace

void add_report_command(CLI::App& app, Common& common) {
  auto* command = app.add_subcommand("report", "one HTML file over runs: tables, score matrices, curves, attention");
  auto arguments = std::make_shared<ReportArguments>();
  command
      ->add_option("RUN", arguments->runs,
                   "output folders of asr run, method folders in them, or tables of runs: FILE.csv, or FILE.csv:SERIES "
                   "for some of its runs")
      ->required();
  command->add_option("-o,--output", arguments->output, "HTML file to write (default: report.html in the one RUN)")
      ->type_name("FILE");
  command
      ->add_option("--figures", arguments->figures,
                   "folder for the page's drawings, each an SVG file, and for the numbers behind them as CSV")
      ->type_name("DIR");
  command->add_flag("--watch", arguments->watch,
                    "writes the page anew while the runs train, with their progress, and ends when they are complete");
  command->add_option("--every", arguments->seconds, "seconds between two pages of --watch")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_option("--against", arguments->against, "label of the baseline (default: vanilla where present)")
      ->type_name("LABEL");
  command->callback([arguments, &common] { report(*arguments, common); });
}

}  // namespace asr
