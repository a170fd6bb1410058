#include "report/t_test.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace asr {
namespace {

// The continued fraction of the incomplete beta function (Lentz's method).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away(1 - (a + b) * x / (a + 1)), out = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d);
    c = away(1 + even / c);
    out *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d);
    c = away(1 + odd / c);
    out *= c * d;
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return out;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// Differences that are equal but for rounding have no spread.
double spread_or_zero(const std::vector<double>& values, double mean) {
  double squares = 0, largest = 0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
    largest = std::max(largest, std::abs(value));
  }
  const double variance = squares / static_cast<double>(values.size() - 1);
  return std::sqrt(variance) > 1e-9 * (1 + largest) ? variance : 0;
}

double mean_over(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void finish_test(MeanTest& test, double variance) {
  if (!(variance > 0) || !(test.freedom > 0)) return;
  test.error = std::sqrt(variance);
  test.p = two_sided_p(test.mean / test.error, test.freedom);
  const double half = critical_t(0.05, test.freedom) * test.error;
  test.interval = {test.mean - half, test.mean + half};
}

}  // namespace

double two_sided_p(double t, double freedom) {
  if (!(freedom > 0) || std::isnan(t)) return kUnknown;
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double critical_t(double p, double freedom) {
  if (!(freedom > 0) || !(p > 0) || !(p < 1)) return kUnknown;
  double low = 0, high = 1;
  while (two_sided_p(high, freedom) > p && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
    const double middle = (low + high) / 2;
    (two_sided_p(middle, freedom) > p ? low : high) = middle;
  }
  return (low + high) / 2;
}

MeanTest paired_t(const std::vector<double>& differences) {
  std::vector<double> values;
  for (const double value : differences)
    if (std::isfinite(value)) values.push_back(value);
  MeanTest out;
  out.n = static_cast<int>(values.size());
  if (values.empty()) return out;
  out.mean = mean_over(values);
  if (out.n < 2) return out;
  out.freedom = out.n - 1;
  finish_test(out, spread_or_zero(values, out.mean) / out.n);
  return out;
}

OverallTest overall_t(const std::vector<std::vector<double>>& settings) {
  OverallTest out;
  std::vector<double> means;
  double sum = 0, weighted = 0;
  bool known = true;
  for (const auto& values : settings) {
    const auto one = paired_t(values);
    if (one.n == 0) continue;
    means.push_back(one.mean);
    known = known && one.n > 1;
    const double variance = std::isfinite(one.error) ? one.error * one.error : 0;
    sum += variance;
    if (one.n > 1) weighted += variance * variance / (one.n - 1);
  }
  out.n = static_cast<int>(means.size());
  if (means.empty()) return out;
  out.mean = mean_over(means);
  for (const double mean : means) out.agree += mean * out.mean > 0;
  if (!known || !(weighted > 0)) return out;
  out.freedom = sum * sum / weighted;
  finish_test(out, sum / (static_cast<double>(out.n) * out.n));
  return out;
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rank = [&](size_t i) { return std::isnan(p[i]) ? 2.0 : p[i]; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  std::vector<double> out(p.size(), kUnknown);
  double largest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (std::isnan(p[order[i]])) break;
    largest = std::max(largest, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    out[order[i]] = largest;
  }
  return out;
}

}  // namespace asr
