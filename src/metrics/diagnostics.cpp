#include "metrics/diagnostics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"

namespace asr {
namespace {

void check_sizes(const Vector& a, const Vector& b, const char* what) {
  check(a.size() == b.size() && !a.empty(), what, " have ", a.size(), " and ", b.size(), " entries");
}

double square(double x) {
  return x * x;
}

double relative_entropy(const Vector& p, const Vector& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) sum += p[i] * std::log(p[i] / q[i]);
  return sum;
}

}  // namespace

double l2_distance(const Vector& a, const Vector& b) {
  check_sizes(a, b, "vectors");
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += square(a[i] - b[i]);
  return std::sqrt(sum);
}

double jensen_shannon(const Vector& p, const Vector& q) {
  check_sizes(p, q, "spectra");
  Vector middle(p.size());
  for (size_t i = 0; i < p.size(); ++i) middle[i] = (p[i] + q[i]) / 2;
  return (relative_entropy(p, middle) + relative_entropy(q, middle)) / 2;
}

double spectral_drift(const Vector& radial_old, const Vector& radial_new, const Vector& angular_old,
                      const Vector& angular_new, double eta) {
  return jensen_shannon(radial_old, radial_new) + eta * jensen_shannon(angular_old, angular_new);
}

double high_frequency_loss(const Vector& radial_old, const Vector& radial_new, double rho0) {
  check_sizes(radial_old, radial_new, "radial spectra");
  double sum = 0;
  for (size_t k = 0; k < radial_old.size(); ++k)
    if ((static_cast<double>(k) + 0.5) / static_cast<double>(radial_old.size()) > rho0)
      sum += radial_old[k] - radial_new[k];
  return sum;
}

double whitened_w2(const Gaussian& now, const Gaussian& old, const Vector& metric_variance) {
  check_sizes(now.mean, old.mean, "means");
  check_sizes(now.variance, old.variance, "variances");
  check_sizes(now.mean, metric_variance, "mean and metric");
  double sum = 0;
  for (size_t i = 0; i < now.mean.size(); ++i) {
    check(metric_variance[i] > 0, "variance ", i, " is zero; floor it before measuring drift");
    sum += (square(now.mean[i] - old.mean[i]) + square(std::sqrt(now.variance[i]) - std::sqrt(old.variance[i]))) /
           metric_variance[i];
  }
  return std::sqrt(sum);
}

double gaussian_drift(const Gaussian& now, const Gaussian& old) {
  return whitened_w2(now, old, old.variance);
}

MemoryError memory_error(const Gaussian& ideal, const Gaussian& stored) {
  check_sizes(ideal.mean, stored.mean, "means");
  MemoryError out;
  double a2 = 0, b2 = 0;
  for (size_t i = 0; i < ideal.mean.size(); ++i) {
    check(ideal.variance[i] > 0, "variance ", i, " is zero; floor it before measuring memory error");
    a2 += square(stored.mean[i] - ideal.mean[i]) / ideal.variance[i];
    const double deviation = stored.variance[i] / ideal.variance[i] - 1;
    b2 += square(deviation);
    out.rho = std::max(out.rho, std::abs(deviation));
  }
  out.a = std::sqrt(a2);
  out.b = std::sqrt(b2);
  out.xi =
      out.rho < 1 ? std::sqrt(a2 + b2 / square(1 + std::sqrt(1 - out.rho))) : std::numeric_limits<double>::infinity();
  return out;
}

BoundSides empirical_bound(const Gaussian& now, const Gaussian& ideal, const Gaussian& stored) {
  const auto error = memory_error(ideal, stored);
  return {gaussian_drift(now, ideal), std::sqrt(1 + error.rho) * whitened_w2(now, stored, stored.variance) + error.xi};
}

double normal_quantile(double probability) {
  check(probability > 0 && probability < 1, "quantile of ", probability, " is not finite");
  // Bisection to a bracket, then Newton steps on the exact distribution function: simple and exact to the last digits.
  const auto cdf = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  double low = -40, high = 40;
  for (int i = 0; i < 30; ++i) (cdf((low + high) / 2) < probability ? low : high) = (low + high) / 2;
  double x = (low + high) / 2;
  for (int i = 0; i < 3; ++i) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    if (density > 0) x -= (cdf(x) - probability) / density;
  }
  return x;
}

Gaussian law_of(const std::vector<Vector>& samples) {
  check(!samples.empty(), "the law of no samples");
  const auto n = static_cast<double>(samples.size());
  const size_t size = samples[0].size();
  Gaussian out{Vector(size, 0), Vector(size, 0)};
  // From the first sample, so that a constant coordinate has variance 0 exactly.
  for (const auto& sample : samples)
    for (size_t d = 0; d < size; ++d) out.mean[d] += (sample.at(d) - samples[0][d]) / n;
  for (const auto& sample : samples)
    for (size_t d = 0; d < size; ++d) out.variance[d] += square(sample[d] - samples[0][d] - out.mean[d]);
  for (size_t d = 0; d < size; ++d) {
    out.mean[d] += samples[0][d];
    out.variance[d] /= std::max(1.0, n - 1);
  }
  return out;
}

double non_gaussianity(const std::vector<Vector>& samples, const Gaussian& own, const Vector& metric_variance) {
  check(!samples.empty(), "non-Gaussianity of no samples");
  check_sizes(own.mean, metric_variance, "mean and metric");
  const size_t n = samples.size();
  Vector normal(n), gaussian(n), column(n);
  for (size_t i = 0; i < n; ++i) normal[i] = normal_quantile((static_cast<double>(i) + 0.5) / static_cast<double>(n));
  double sum = 0;
  for (size_t d = 0; d < own.mean.size(); ++d) {
    check(metric_variance[d] > 0, "variance ", d, " of the metric is zero; floor it before measuring");
    const double unit = std::sqrt(metric_variance[d]), spread = std::sqrt(own.variance[d]) / unit;
    for (size_t i = 0; i < n; ++i) {
      column[i] = (samples[i].at(d) - own.mean[d]) / unit;
      gaussian[i] = spread * normal[i];
    }
    sum += square(wasserstein_1d(column, gaussian, 2));
  }
  return std::sqrt(sum);
}

double wasserstein_1d(Vector a, Vector b, double p) {
  check_sizes(a, b, "samples");
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(std::abs(a[i] - b[i]), p);
  return std::pow(sum / static_cast<double>(a.size()), 1 / p);
}

RiskFit fit_risk(const Vector& w1, const Vector& risk_increase) {
  check_sizes(w1, risk_increase, "distances and risks");
  double xy = 0, xx = 0;
  for (size_t i = 0; i < w1.size(); ++i) {
    xy += w1[i] * risk_increase[i];
    xx += square(w1[i]);
  }
  RiskFit out;
  out.lipschitz = xx > 0 ? std::max(0.0, xy / xx) : 0;
  for (size_t i = 0; i < w1.size(); ++i)
    out.epsilon = std::max(out.epsilon, (risk_increase[i] - out.lipschitz * w1[i]) / 2);
  return out;
}

double coarsening_norm(const std::vector<int64_t>& radial_bin, const std::vector<int64_t>& angular_bin) {
  check(radial_bin.size() == angular_bin.size() && !radial_bin.empty(), "bin tables differ in size");
  // The supremum is attained at a unit mass, so it is the largest column norm; a 0/1 column has one 1 per block.
  double largest = 0;
  for (size_t i = 0; i < radial_bin.size(); ++i)
    largest = std::max(largest, std::sqrt(double(radial_bin[i] >= 0) + double(angular_bin[i] >= 0)));
  return largest;
}

std::array<double, 6> six_number_summary(const Vector& radial, const Vector& anisotropy) {
  std::array<double, 6> out{};
  std::array<int, 3> members{};
  for (size_t k = 0; k < radial.size(); ++k) {
    const double centre = (static_cast<double>(k) + 0.5) / static_cast<double>(radial.size());
    out[std::min(2, static_cast<int>(centre * 3))] += radial[k];
  }
  for (size_t m = 0; m < anisotropy.size(); ++m) {
    const double degrees = -180 + (static_cast<double>(m) + 0.5) * 360 / static_cast<double>(anisotropy.size());
    const int band = std::min(2, static_cast<int>(std::fmod(degrees + 180, 180) / 60));
    out[3 + band] += anisotropy[m];
    ++members[band];
  }
  for (int band = 0; band < 3; ++band)
    if (members[band]) out[3 + band] /= members[band];
  return out;
}

double separation(const std::vector<Vector>& samples, const std::vector<int64_t>& skill) {
  check(samples.size() == skill.size(), "separation needs one skill a sample");
  std::map<int64_t, std::pair<Vector, int>> groups;
  for (size_t i = 0; i < samples.size(); ++i) {
    auto& [sum, count] = groups[skill[i]];
    if (sum.empty()) sum.assign(samples[i].size(), 0);
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += samples[i].at(d);
    ++count;
  }
  for (auto& [key, group] : groups)
    for (double& value : group.first) value /= group.second;
  double within = 0, between = 0;
  int pairs = 0;
  for (size_t i = 0; i < samples.size(); ++i)
    within += l2_distance(samples[i], groups[skill[i]].first) / static_cast<double>(samples.size());
  for (auto a = groups.begin(); a != groups.end(); ++a)
    for (auto b = std::next(a); b != groups.end(); ++b) {
      between += l2_distance(a->second.first, b->second.first);
      ++pairs;
    }
  return pairs > 0 && within > 0 ? between / pairs / within : NAN;
}

}  // namespace asr
