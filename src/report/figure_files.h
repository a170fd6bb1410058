// The drawings of the report as SVG files of their own, and what they draw as CSV, for papers and documents.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"

namespace asr {

struct FigureFile {
  std::string
      name;  // what the drawing shows, as a file name: "score-matrix-of-vanilla.svg"; or FIGURE-STREAM-BACKBONE.csv
  std::string content;  // a drawing has its part of the style sheet, light and dark
};

// In the order of the page. Captions and legends, which the page holds as text, are not part of them.
std::vector<FigureFile> figure_files(const Comparison& comparison);

}  // namespace asr
