// Choosing settings by score, without looking at what they are: points of a grid with a score a seed, the best of
// them, and where a grid of rates should be made longer.
#pragma once

#include <string>
#include <vector>

namespace asr {

struct ScoredPoint {
  std::string name;
  std::vector<double> scores;  // one a seed; empty or NaN: it diverged, or was not run
  double mean() const;         // NaN without a number; one NaN makes the point NaN: it diverges for some seeds
};

// Indices of the best means, best first; the earlier of equal ones first. Fewer where fewer have a score.
std::vector<size_t> best_points(const std::vector<ScoredPoint>& points, size_t count);

// The next number of the row 1, 2, 5, 10, ... beyond the end at which `best` lies; NaN where it lies inside. Rates
// that are no numbers of that row are doubled or halved.
double rate_beyond(const std::vector<double>& rates, double best);

}  // namespace asr
