// A matrix as coloured cells with their numbers: scores, interference. Cells without a number stay blank.
#pragma once

#include <string>
#include <vector>

#include "report/colors.h"

namespace asr {

struct HeatRow {
  std::string name;
  std::vector<double> values;  // one a column; NaN: blank
  int newest;                  // column that is outlined, or -1
};

struct HeatMap {
  std::string title;
  std::vector<std::string> columns;  // tasks
  std::vector<HeatRow> rows;
  double low = 0, high = 100;         // ends of the colours
  Rgb (*color)(double) = cell_color;  // of 0 (low) to 1 (high)
  std::string unit = "score";         // in what pointing at a cell says
  std::string after = "after";        // between a column and a row there
  double left = 110;                  // room for the rows' names
};

std::string draw(const HeatMap& map);

}  // namespace asr
