// The two tables of the ASR paper in our measurement, with the paper's own numbers beside ours
// (assets/paper-tables.csv, transcribed). Rows are the paper's methods in its order, then whatever else was run.
#pragma once

#include <string>
#include <vector>

#include "report/tables.h"

namespace asr {

enum class PaperTable { vqa, cit };
PaperTable paper_table_named(const std::string& name);  // "paper-vqa", "paper-cit"
const char* label_of(PaperTable table);                 // in the paper's source
std::vector<std::string> metrics_of(PaperTable table);

struct PaperNumber {
  std::string table, method, name, backbone, benchmark, metric;
  std::string same_as;  // a method whose runs are its own at equal settings; empty: none
  double value = 0;
};
// Those of one table. A bad line is an error that names it.
std::vector<PaperNumber> read_paper_numbers(const std::string& path, PaperTable table);

// Ours and the paper's scores; then bytes kept, trained parameters and time. `comparison` has the table's metrics.
std::vector<Grid> paper_grids(const Comparison& comparison, const std::vector<PaperNumber>& numbers, PaperTable table);
std::vector<std::string> paper_notes(const Comparison& comparison, PaperTable table);

// text, markdown or latex, notes below.
std::string paper_text(const std::vector<Grid>& grids, const std::vector<std::string>& notes,
                       const std::string& format);

// One number of the tables, for programs.
struct PaperEntry {
  std::string label, where, metric;
  bool of_paper = false;
  Spread value;  // of the paper's the mean alone
};
std::vector<PaperEntry> paper_entries(const Comparison& comparison, const std::vector<PaperNumber>& numbers);
std::string paper_csv(const std::vector<PaperEntry>& entries);

}  // namespace asr
