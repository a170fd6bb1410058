#include "report/intervals.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace asr {
namespace {

double quantile(const std::vector<double>& sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(place), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Two draws from every 64 random bits; the bias of the multiplication is below size / 2^32.
double resampled_mean(const std::vector<double>& values, Random& random) {
  const uint64_t size = values.size();
  double sum = 0;
  uint64_t bits = 0;
  for (uint64_t i = 0; i < size; ++i) {
    bits = i % 2 == 0 ? random.next() : bits >> 32;
    sum += values[((bits & 0xffffffff) * size) >> 32];
  }
  return sum / static_cast<double>(size);
}

}  // namespace

Interval::Interval() : low(kUnknown), high(kUnknown) {}

bool Interval::known() const {
  return std::isfinite(low) && std::isfinite(high);
}

Spread::Spread() : mean(kUnknown), deviation(kUnknown) {}

Interval bootstrap_within(const std::vector<std::vector<double>>& groups) {
  for (const auto& group : groups)
    if (group.empty()) return {};
  if (groups.empty()) return {};
  Random random{0x626f6f74};
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    double sum = 0;
    for (const auto& group : groups) sum += resampled_mean(group, random);
    mean = sum / static_cast<double>(groups.size());
  }
  std::sort(means.begin(), means.end());
  return {quantile(means, 0.025), quantile(means, 0.975)};
}

Spread spread_of(const std::vector<double>& all) {
  std::vector<double> values;
  for (double value : all)
    if (std::isfinite(value)) values.push_back(value);
  Spread out;
  out.n = static_cast<int>(values.size());
  if (values.empty()) return out;
  double sum = 0, squares = 0;
  for (double value : values) sum += value;
  out.mean = sum / out.n;
  if (out.n < 2) return out;
  for (double value : values) squares += (value - out.mean) * (value - out.mean);
  out.deviation = std::sqrt(squares / (out.n - 1));
  out.interval = bootstrap_within({values});
  return out;
}

}  // namespace asr
