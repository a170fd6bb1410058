// Many finished runs in one table, a row a run: what the tables of `asr compare` need of them, and no more (no log, no
// predictions, no curves of skills). Small enough to be committed where folders of runs are not.
//
// The columns are named in the first line and may stand in any order; `settings` is a hash of the options and the data
// that a run was made from, equal for runs that differ in seed and order alone. `tasks` is a list with commas, in the
// order trained; `matrix` and `novel` are score matrices, "0 10 20; 1 50; 2 40 60": a stage and its scores, "-" where
// one is missing. Scores are computed from the matrices; the columns AP, AF, ... are there to be read and sorted by.
//
// Runs that belong together, such as all of one search, share a `series`; a label may stand in several of them. A table
// of several series is read one by one: FILE.csv:SERIES.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace asr {

// A table as users name it.
struct RunsTable {
  std::string path, series;  // no series: all runs are of the same one, or of none
  std::string name() const { return series.empty() ? path : path + ":" + series; }
};
RunsTable runs_table(const std::string& given);

// A run's `folder` is "TABLE:LINE" and its `root` the table's name. Bad content is an error that names the line.
// `notes` receives what a reader of the numbers should know.
std::vector<Run> read_runs_csv(const RunsTable& table, std::vector<std::string>& notes);

struct RunsMerge {
  size_t rows = 0, added = 0, replaced = 0;
  std::vector<std::string> left_out;  // unfinished runs, one line each
};

// Adds the runs to the table's series, sorted; a run takes the place of the row of the same stream, held-out group,
// backbone, label, order and seed, scored alike (split, head). Written whole or not at all.
RunsMerge merge_runs_csv(const RunsTable& table, const std::vector<Run>& runs);

}  // namespace asr
