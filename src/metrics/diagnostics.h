// What is read off stored spectra: drift between checkpoints, the terms of the forgetting bound, and summaries for
// figures (docs/maths.md, "Diagnostics"). Plain numbers in double, without torch: runs, commands and the report share
// it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace asr {

using Vector = std::vector<double>;

double l2_distance(const Vector& a, const Vector& b);
double jensen_shannon(const Vector& p, const Vector& q);  // natural log, 0 log 0 = 0, not renormalised
double spectral_drift(const Vector& radial_old, const Vector& radial_new, const Vector& angular_old,
                      const Vector& angular_new, double eta = 1);
// Energy lost by the radial bins whose centre exceeds rho0; positive when fine structure fades.
double high_frequency_loss(const Vector& radial_old, const Vector& radial_new, double rho0 = 0.5);

// A diagonal Gaussian.
struct Gaussian {
  Vector mean, variance;
};

// W2 between two laws in the metric whitened by `metric_variance`; with metric = old variance this is the drift
// Delta of the forgetting theorem.
double whitened_w2(const Gaussian& now, const Gaussian& old, const Vector& metric_variance);
double gaussian_drift(const Gaussian& now, const Gaussian& old);

// Error of a stored prototype against the ideal one: a, b, rho and the correction xi. xi is infinite for rho >= 1.
struct MemoryError {
  double a = 0, b = 0, rho = 0, xi = 0;
};
MemoryError memory_error(const Gaussian& ideal, const Gaussian& stored);

// Delta(now, ideal) <= sqrt(1 + rho) W2(now, stored) + xi, the bound on stored memory.
struct BoundSides {
  double left = 0, right = 0;
};
BoundSides empirical_bound(const Gaussian& now, const Gaussian& ideal, const Gaussian& stored);

// Mean and unbiased variance (0 of a single sample).
Gaussian law_of(const std::vector<Vector>& samples);

// Estimate of Gamma, the W2 distance of a law to the Gaussian of its own mean and variance, in the metric whitened by
// `metric_variance` (the OLD stage's, for old and new law alike: terms of one sum must share a metric). Root of
// the summed squared one-dimensional W2 of the whitened marginals against N(0, own variance / metric variance), by
// quantiles at (i - 1/2)/n. A lower estimate in more than one dimension.
double non_gaussianity(const std::vector<Vector>& samples, const Gaussian& own, const Vector& metric_variance);

// Wasserstein distance of order p between two one-dimensional samples of equal size.
double wasserstein_1d(Vector a, Vector b, double p);
double normal_quantile(double probability);

// Least squares of risk increase on W1 through the origin: the slope L (>= 0) and epsilon, half the largest residual.
struct RiskFit {
  double lipschitz = 0, epsilon = 0;
};
RiskFit fit_risk(const Vector& w1, const Vector& risk_increase);

// Largest ||C r||_2 / ||r||_1 of the 0/1 matrix that stacks the radial and angular bins.
double coarsening_norm(const std::vector<int64_t>& radial_bin, const std::vector<int64_t>& angular_bin);

// Low, middle and high radial energy, then anisotropy along orientations [0,60), [60,120), [120,180) degrees.
std::array<double, 6> six_number_summary(const Vector& radial, const Vector& anisotropy);

// Mean pairwise distance of skill means over the mean distance of samples to their own mean; NaN for a single skill, or
// where all samples of a skill are equal.
double separation(const std::vector<Vector>& samples, const std::vector<int64_t>& skill);

}  // namespace asr
