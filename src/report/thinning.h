// Curves over many steps, thinned by averaging neighbours.
#pragma once

#include <vector>

#include "report/chart.h"
#include "report/run_files.h"

namespace asr {

// Means over equal runs of lines; never across a stage's beginning, where a loss jumps and the line ends.
Series thinned(const LossLog& log, const std::vector<double>& values);

}  // namespace asr
