#include "report/choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/intervals.h"

namespace asr {

double ScoredPoint::mean() const {
  if (scores.empty()) return kUnknown;
  return std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
}

std::vector<size_t> best_points(const std::vector<ScoredPoint>& points, size_t count) {
  std::vector<size_t> out;
  for (size_t i = 0; i < points.size(); ++i)
    if (std::isfinite(points[i].mean())) out.push_back(i);
  std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return points[a].mean() > points[b].mean(); });
  if (out.size() > count) out.resize(count);
  return out;
}

double rate_beyond(const std::vector<double>& rates, double best) {
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  const bool up = best >= *high * (1 - 1e-9), down = best <= *low * (1 + 1e-9);
  if (up == down) return kUnknown;  // inside, or the grid has one value
  const double power = std::pow(10, std::floor(std::log10(best) + 1e-9)), digit = std::round(best / power * 1e6) / 1e6;
  const double next[2][3] = {{0.5, 1, 2}, {2, 5, 10}};  // below and above 1, 2 and 5
  const double row[3] = {1, 2, 5};
  for (int i = 0; i < 3; ++i)
    if (digit == row[i]) return next[up ? 1 : 0][i] * power;
  return up ? 2 * best : best / 2;
}

}  // namespace asr
