// How two numbers go together over some points: Pearson's and Spearman's coefficient, each with a 95 % interval by
// resampling the points (report/intervals.h).
#pragma once

#include <utility>
#include <vector>

#include "report/intervals.h"

namespace asr {

struct Correlation {
  int n = 0;                                       // points
  double pearson = kUnknown, spearman = kUnknown;  // unknown for fewer than three points, or where one side is constant
  Interval pearson_interval{}, spearman_interval{};
};
using PairedValues = std::vector<std::pair<double, double>>;

Correlation correlation_of(const PairedValues& points);

}  // namespace asr
