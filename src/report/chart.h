// Lines over an x axis: the one chart that stage curves, losses and accuracies share.
#pragma once

#include <string>
#include <vector>

namespace asr {

struct Series {
  std::string name;
  int style = 0;                       // colour, dashes and marker
  std::vector<double> x, y;            // NaN in y breaks the line
  std::vector<double> deviation;       // half height of the band; empty: none
  bool markers = false, rule = false;  // rule: a dotted horizontal line, a level and not a course
};

struct Chart {
  std::string title, x_label, y_label;
  double width = 440, height = 270, largest = 600;
  double low = 0, high = 0;        // of y; equal: from the data
  bool whole_steps = false;        // x counts stages: ticks at whole numbers
  std::vector<double> boundaries;  // thin vertical lines
  std::vector<Series> series;
};

std::string draw(const Chart& chart);

}  // namespace asr
