#include "cli/summary.h"

#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/version.h"
#include "report/page.h"
#include "report/tables.h"

namespace asr {

void write_tables(const std::string& out, const Comparison& comparison) {
  write_file_atomically(out + "/compare.md", markdown_tables(comparison));
  write_file_atomically(out + "/compare.csv", csv_table(comparison));
}

ReportPage write_report(const std::string& path, const RunSet& set, const Comparison& comparison) {
  auto page = make_report_page(set, comparison, version_text());
  write_file_atomically(path, page.html);
  const auto beside = std::filesystem::path(path).replace_extension().string();
  write_file_atomically(beside + ".md", report_markdown(comparison));
  write_file_atomically(beside + ".tex", latex_tables(comparison));
  return page;
}

void write_summary(const std::string& out) {
  try {
    const auto set = load_runs({out});
    const auto comparison = compare_runs(set, {});
    write_tables(out, comparison);
    for (const auto& line : write_report(out + "/report.html", set, comparison).unread) log_warn(printable(line, 500));
    for (const auto& line : comparison.notes) log_warn(printable(line, 2000));
  } catch (const Error& error) {
    log_warn(out,
             ": the run is complete, but compare.md, compare.csv and report.html could not be written: ", error.what());
  }
}

}  // namespace asr
