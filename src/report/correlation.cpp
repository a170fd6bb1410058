#include "report/correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace asr {
namespace {

constexpr int kLeastPoints = 3;
constexpr int kDraws = 2000;

double pearson_of(const PairedValues& points) {
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const auto& [a, b] : points) {
    x += a / n;
    y += b / n;
  }
  for (const auto& [a, b] : points) {
    xx += (a - x) * (a - x);
    yy += (b - y) * (b - y);
    xy += (a - x) * (b - y);
  }
  const double least = 1e-24 * n;  // a side that does not vary has no correlation
  return xx > least && yy > least ? xy / std::sqrt(xx * yy) : kUnknown;
}

// Ranks from 1; equal values share the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) out[order[i]] = static_cast<double>(first + end + 1) / 2;
    first = end;
  }
  return out;
}

double spearman_of(const PairedValues& points) {
  std::vector<double> first, second;
  for (const auto& [a, b] : points) {
    first.push_back(a);
    second.push_back(b);
  }
  const auto x = ranks_of(first), y = ranks_of(second);
  PairedValues ranks;
  for (size_t i = 0; i < x.size(); ++i) ranks.emplace_back(x[i], y[i]);
  return pearson_of(ranks);
}

// Resamples without any variation say nothing and are left out.
Interval resampled(const PairedValues& points, double (*statistic)(const PairedValues&)) {
  Random random{0x636f7272};
  std::vector<double> found;
  PairedValues drawn(points.size());
  for (int i = 0; i < kDraws; ++i) {
    for (auto& point : drawn)
      point = points[static_cast<size_t>(random.uniform() * static_cast<double>(points.size()))];
    const double value = statistic(drawn);
    if (std::isfinite(value)) found.push_back(value);
  }
  if (found.size() < kDraws / 2) return {};
  std::sort(found.begin(), found.end());
  const auto at = [&](double p) { return found[static_cast<size_t>(p * static_cast<double>(found.size() - 1))]; };
  return {at(0.025), at(0.975)};
}

}  // namespace

Correlation correlation_of(const PairedValues& points) {
  Correlation out;
  out.n = static_cast<int>(points.size());
  if (out.n < kLeastPoints) return out;
  out.pearson = pearson_of(points);
  out.spearman = spearman_of(points);
  if (!std::isfinite(out.pearson)) return out;
  out.pearson_interval = resampled(points, pearson_of);
  out.spearman_interval = resampled(points, spearman_of);
  return out;
}

}  // namespace asr
