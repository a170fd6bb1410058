// The comparison as tables for people and programs. Every format but CSV is drawn from the same grids of cells and the
// same footnotes, so that none can say less than another.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/compare.h"

namespace asr {

struct Cell {
  std::string value;       // "52.31±1.20", "+3.10*"
  std::string detail;      // its interval, "51.0..53.1"; may be empty
  std::string whole = {};  // of a name that is cut in `value`, for the page
};

struct Grid {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<Cell>> rows;
};

Cell score_cell(const Spread& spread, int decimals);
Grid score_grid(const Comparison& comparison, const ComparisonTable& table);
Grid difference_grid(const Comparison& comparison, const ComparisonTable& table);  // no rows without a baseline
Grid settings_grid(const ComparisonTable& table);  // what each label was run with and costs
Grid contrast_grid(const Comparison& comparison);  // no rows without a protocol
std::vector<std::string> contrast_notes(const Comparison& comparison);
std::vector<std::string> footnotes(const Comparison& comparison, const ComparisonTable& table);

// A grid with its caption, and lines below it, as text, markdown or latex.
std::string grid_text(const Grid& grid, const std::string& format);
std::string notes_text(const std::vector<std::string>& notes, const std::string& format);

std::string text_tables(const Comparison& comparison);  // for a terminal; 80 columns where labels are short
std::string markdown_tables(const Comparison& comparison);
std::string latex_tables(const Comparison& comparison);  // needs booktabs
std::string csv_table(const Comparison& comparison);     // one row a stream, backbone, label and metric
nlohmann::json comparison_json(const Comparison& comparison);

}  // namespace asr
