// The drawings of the report as SVG files of their own, and what they draw as CSV, for papers and documents.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"

namespace asr {

struct FigureFile {
  std::string name;     // "score_matrices-score-matrix-of-vanilla.svg", "score_matrices-world-10-tiny-s.csv"
  std::string content;  // a drawing has its part of the style sheet, light and dark, and a legend where it has colours
};

// In the order of the page. Captions and notes, which the page holds as text, are not part of them. What cannot be read
// is added to `unread`, a line each; the figures that need it are missing.
std::vector<FigureFile> figure_files(const Comparison& comparison, std::vector<std::string>& unread);

}  // namespace asr
