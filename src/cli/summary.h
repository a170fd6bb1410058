// The tables and the report of an output folder, as `asr run`, `asr demo`, `asr compare` and `asr report` write them.
#pragma once

#include <string>

#include "report/compare.h"
#include "report/page.h"
#include "report/run.h"

namespace asr {

void write_tables(const std::string& out, const Comparison& comparison);  // OUT/compare.md and OUT/compare.csv

// FILE.html, with its sentences and tables as FILE.md and FILE.tex beside it. Returns the page.
ReportPage write_report(const std::string& path, const RunSet& set, const Comparison& comparison);

// All three over everything in `out`, at the end of a run. What keeps them from being written is a warning: the run
// itself is done.
void write_summary(const std::string& out);

}  // namespace asr
