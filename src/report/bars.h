// Values of named rows along one axis: bars from zero, or dots with their range.
#pragma once

#include <string>
#include <vector>

namespace asr {

struct BarRow {
  std::string name;
  int style;
  double value;              // NaN: none
  double low, high;          // NaN: no interval
  std::vector<double> dots;  // single runs; may be empty
  bool heading = false;      // a name above the rows that follow, without a bar
};

struct BarChart {
  std::string title, x_label;
  std::vector<BarRow> rows;
  bool from_zero = true;  // a bar from zero; else a tick at the value
};

std::string draw(const BarChart& chart);

}  // namespace asr
