// Lines and points over two axes: the one chart that curves, losses and scatter plots share.
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
  bool line = true;                    // false: points alone
  int dashes = -1;                     // of the line; -1: as the style says
  std::vector<double> scale;           // of each marker, 1 where empty; its area goes with the square
  std::vector<std::string> tips;       // what pointing at a marker says; empty: name, x and y
  std::vector<std::string> topics;     // task or skill of each point; may be empty
};

struct Chart {
  std::string title, x_label, y_label;
  double width = 440, height = 270, largest = 600;
  double low = 0, high = 0;        // of y; equal: from the data
  bool from_zero = false;          // of y, where it is taken from data
  bool whole_steps = false;        // x counts stages: ticks at whole numbers
  std::vector<double> boundaries;  // thin vertical lines
  std::vector<Series> series;
};

std::string draw(const Chart& chart);

}  // namespace asr
