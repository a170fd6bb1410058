// Means with their spread, and 95 % percentile bootstrap intervals. Deterministic: the random numbers are keyed by
// nothing but the position in the resampling, so the same values always give the same interval.
#pragma once

#include <limits>
#include <vector>

namespace asr {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
inline constexpr int kResamples = 10000;

struct Interval {
  double low, high;  // NaN when there is none
  Interval();
  Interval(double from, double to) : low(from), high(to) {}
  bool known() const;
  bool excludes_zero() const { return known() && (low > 1e-9 || high < -1e-9); }  // rounding is not a difference
};

struct Spread {
  int n = 0;            // values that are numbers
  double mean;          // NaN without any
  double deviation;     // with n - 1; NaN for n < 2
  Interval interval{};  // of the mean, by resampling the values; none for n < 2
  Spread();
};
Spread spread_of(const std::vector<double>& values);  // NaN values are left out

// Of the mean over groups of the mean within each group, resampling within the groups: the groups (tasks) are fixed,
// their members (validation samples) are what could have been others. A single group is a plain bootstrap.
Interval bootstrap_within(const std::vector<std::vector<double>>& groups);

}  // namespace asr
