// The paper's statements as properties of random inputs (sections "Theory" and both proof appendices).
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "metrics/assignment.h"
#include "metrics/diagnostics.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

// p(A) = |F A|^2 / |A|^2 with the unitary transform, flattened.
torch::Tensor normalised_power(const torch::Tensor& map) {
  const auto wave = at::view_as_real(at::fft_fft2(map, none, {-2, -1}, "ortho"));
  return (wave.square().sum(-1) / map.square().sum()).flatten();
}

torch::Tensor coarsening(int64_t height, int64_t width) {
  const auto plane = make_frequency_plane(height, width, {});
  auto matrix = torch::zeros({16, height * width}, at::kDouble);
  for (int64_t i = 0; i < height * width; ++i) {
    matrix[plane.radial_bin[i]][i] = 1;
    matrix[8 + plane.angular_bin[i]][i] = 1;
  }
  return matrix;
}

torch::Tensor spectral_statistics(const torch::Tensor& map) {
  return coarsening(map.size(0), map.size(1)).matmul(normalised_power(map));
}

double length(const torch::Tensor& t) {
  return t.norm().item<double>();
}
double norm1(const torch::Tensor& t) {
  return t.abs().sum().item<double>();
}
const double kKappa = std::sqrt(2.0);

struct Grid {
  int64_t height, width;
};
const Grid kGrids[] = {{4, 4}, {5, 7}, {8, 6}, {9, 9}, {12, 5}};

TEST(Theorem, CyclicShiftsLeaveSpectrumAndDescriptorAlone) {
  torch::manual_seed(11);
  for (const char* preset : {"paper", "reference", "sound"})
    for (const auto& grid : kGrids) {
      const auto options = resolve_options(preset, {}).spectral;
      const auto attention = random_attention({1, 2, 2, 2, grid.height, grid.width});
      const auto weights = token_weights(torch::ones({1, 2}), torch::ones({1, 2}));
      for (int64_t dy = 0; dy < grid.height; dy += 2)
        for (int64_t dx = 1; dx < grid.width; dx += 2) {
          const auto moved = attention.roll({dy, dx}, {4, 5}).contiguous();
          const auto map = attention[0][0][0][0];
          EXPECT_LT(norm1(normalised_power(map) - normalised_power(map.roll({dy, dx}, {0, 1}))), 1e-13);
          for (auto implementation : {Implementation::reference, Implementation::fused}) {
            const SpectralEncoder encoder(grid.height, grid.width, options, implementation);
            EXPECT_LT(relative_error(encoder.descriptor(moved, weights), encoder.descriptor(attention, weights)), 1e-10)
                << preset;
          }
        }
    }
}

TEST(Theorem, CoordinatePowerIsControlledByProjectiveDistance) {
  torch::manual_seed(12);
  for (int round = 0; round < 200; ++round) {
    auto u = torch::randn({2, 17}, at::kDouble),
         v = u + torch::randn({2, 17}, at::kDouble) * (round % 20) * 0.1;  // rows: real, imaginary
    u = u / u.norm();
    v = v / v.norm();
    const double difference = norm1(u.square().sum(0) - v.square().sum(0));
    const double real = (u[0] * v[0] + u[1] * v[1]).sum().item<double>(),
                 imaginary = (u[0] * v[1] - u[1] * v[0]).sum().item<double>();
    EXPECT_LE(difference, 2 * std::sqrt(std::max(0.0, 1 - real * real - imaginary * imaginary)) + 1e-12);
  }
}

TEST(Theorem, PerturbedShiftsMoveSpectraByAtMostTwiceTheNoise) {
  torch::manual_seed(13);
  for (const auto& grid : kGrids)
    for (int round = 0; round < 40; ++round) {
      const auto source = random_map(grid.height, grid.width);
      auto noise = torch::randn_like(source);
      const double rho = 0.02 * (round + 1);
      noise = noise / noise.norm() * rho * length(source);
      const auto target = source.roll({round % grid.height, 1}, {0, 1}) + noise;
      EXPECT_LE(norm1(normalised_power(target) - normalised_power(source)), 2 * rho + 1e-12);
      EXPECT_LE(length(spectral_statistics(target) - spectral_statistics(source)), 2 * kKappa * rho + 1e-12);
    }
}

TEST(Theorem, TheConstantTwoIsAttained) {
  // Two-dimensional example of the proof, in the plane of two frequencies.
  for (double rho : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    const double phi = std::asin(rho), start = M_PI / 4 - phi / 2;
    const double u[2] = {std::cos(start), std::sin(start)}, v[2] = {std::cos(start + phi), std::sin(start + phi)};
    const double b[2] = {std::cos(phi) * v[0], std::cos(phi) * v[1]};
    EXPECT_NEAR(std::hypot(b[0] - u[0], b[1] - u[1]), rho, 1e-12);
    EXPECT_NEAR(std::abs(v[0] * v[0] - u[0] * u[0]) + std::abs(v[1] * v[1] - u[1] * u[1]), 2 * rho, 1e-12);
    // The same as maps: DC and Nyquist of a 1x2 grid are the two coordinates.
    if (rho == 1.0) continue;  // b = 0 there
    const double s = std::sqrt(0.5);
    const auto source = torch::tensor({s * (u[0] + u[1]), s * (u[0] - u[1])}, at::kDouble).view({1, 2});
    const auto target = torch::tensor({s * (b[0] + b[1]), s * (b[0] - b[1])}, at::kDouble).view({1, 2});
    EXPECT_NEAR(norm1(normalised_power(target) - normalised_power(source)), 2 * rho, 1e-12);
  }
}

TEST(Theorem, ZeroPaddedShiftsAreCyclicShiftsPlusABoundary) {
  torch::manual_seed(14);
  int tried = 0;
  for (const auto& grid : kGrids)
    for (int64_t dy = 0; dy < grid.height / 2; ++dy)
      for (int64_t dx = 0; dx < grid.width / 2; ++dx) {
        const auto map = random_map(grid.height, grid.width);
        const auto cyclic = map.roll({dy, dx}, {0, 1});
        auto padded = cyclic.clone();
        padded.slice(0, 0, dy).fill_(0);
        padded.slice(1, 0, dx).fill_(0);
        const double rho = length(padded - cyclic) / length(map);
        if (rho > 1) continue;
        ++tried;
        EXPECT_LE(norm1(normalised_power(padded) - normalised_power(map)), 2 * rho + 1e-12);
        EXPECT_LE(length(spectral_statistics(padded) - spectral_statistics(map)), 2 * kKappa * rho + 1e-12);
      }
  EXPECT_GT(tried, 20);
}

TEST(Theorem, TransportAndRiskStabilityOnCoupledSamples) {
  torch::manual_seed(15);
  constexpr int n = 24;
  std::vector<torch::Tensor> source, target;
  std::vector<Vector> sources, targets;
  const auto numbers = [](const torch::Tensor& x) {
    return Vector(x.data_ptr<double>(), x.data_ptr<double>() + x.numel());
  };
  double mean_rho = 0, coupled = 0;
  for (int i = 0; i < n; ++i) {
    const auto map = random_map(7, 6);
    const double rho = 0.3 * (i + 1) / n;
    auto noise = torch::randn_like(map);
    noise = noise / noise.norm() * rho * length(map);
    source.push_back(spectral_statistics(map));
    target.push_back(spectral_statistics(map.roll({i % 7, i % 5}, {0, 1}) + noise));
    sources.push_back(numbers(source.back().contiguous()));
    targets.push_back(numbers(target.back().contiguous()));
    mean_rho += rho / n;
    coupled += length(target.back() - source.back()) / n;
  }
  const double w1 = wasserstein_1(targets, sources, Vector(sources[0].size(), 1.0));
  EXPECT_GT(w1, 0);
  EXPECT_LE(w1, coupled + 1e-12);
  EXPECT_LE(w1, 2 * kKappa * mean_rho);
  // A Lipschitz surrogate risk: distance to a fixed point, L = 3.
  const auto anchor = torch::rand({16}, at::kDouble);
  double gap = 0;
  for (int i = 0; i < n; ++i) gap += 3 * (length(target[i] - anchor) - length(source[i] - anchor)) / n;
  EXPECT_LE(std::abs(gap), 3 * w1 + 1e-12);
  EXPECT_LE(std::abs(gap), 2 * 3 * kKappa * mean_rho);
}

TEST(Theorem, PeakStaysUnderASpectralGap) {
  torch::manual_seed(16);
  const int64_t H = 6, W = 7;
  const SpectralEncoder encoder(H, W, {});  // (0, 0), the certain peak of a positive map, is excluded
  const auto one = torch::ones({1, 1}, at::kDouble);
  const auto peak_of = [&](const torch::Tensor& map) {
    return encoder.details(map.contiguous().view({1, 1, 1, 1, H, W}), one).peak.item<int64_t>();
  };
  std::set<int64_t> peaks;
  int moved_beyond_the_gap = 0;
  for (int round = 0; round < 300; ++round) {
    const auto map = random_map(H, W);
    const int64_t peak = peak_of(map), mirror = (H - peak / W) % H * W + (W - peak % W) % W;
    auto others = at::view_as_real(at::fft_fft2(map, none, {-2, -1}, "ortho")).square().sum(-1).flatten();
    const double best = others[peak].item<double>();
    others[0] = others[peak] = others[mirror] = 0;  // a frequency and its conjugate are one peak
    const double gap = best - others.max().item<double>(), limit = gap / (2 * map.square().sum().item<double>());
    const auto disturbed = [&](double eta) {
      auto noise = torch::randn_like(map);
      return map.roll({round % H, round % W}, {0, 1}) + noise / noise.norm() * eta * length(map);
    };
    EXPECT_EQ(peak_of(disturbed((std::sqrt(1 + limit) - 1) * 0.999)), peak);  // 2 eta + eta^2 < limit
    moved_beyond_the_gap += peak_of(disturbed(1)) != peak;
    peaks.insert(peak);
  }
  EXPECT_GT(peaks.size(), 10u);
  EXPECT_GT(moved_beyond_the_gap, 50) << "without the gap condition the peak does move";
}

TEST(Theorem, RawAttentionMatchingIsMaximallyUnstable) {
  const auto map = torch::zeros({6, 6}, at::kDouble);
  map[0][0] = 1;
  const auto moved = map.roll({2, 3}, {0, 1});
  EXPECT_LT(norm1(normalised_power(moved) - normalised_power(map)), 1e-14);
  EXPECT_DOUBLE_EQ(length(moved - map), std::sqrt(2.0) * length(map));
  // The losses say the same: raw matching pays 2, the spectral loss nothing.
  Options raw;
  raw.asr.spectrum = Spectrum::raw;
  PrototypeTensors prototype;
  prototype.skill = torch::zeros({1}, at::kLong);
  prototype.map = map.unsqueeze(0);
  const auto posterior = torch::ones({1, 1}, at::kDouble);
  const auto wide = at::TensorOptions().dtype(at::kDouble);
  EXPECT_DOUBLE_EQ(SpectralLoss(prototype, raw, wide).raw(moved.view({1, 1, 6, 6}), posterior).loss.item<double>(), 2);
  Options full;
  const SpectralEncoder encoder(6, 6, full.spectral);
  const auto weights = torch::ones({1, 1}, at::kDouble);
  const auto before = encoder.descriptor(map.view({1, 1, 1, 1, 6, 6}), weights),
             after = encoder.descriptor(moved.contiguous().view({1, 1, 1, 1, 6, 6}), weights);
  prototype.mean = before;
  prototype.variance = torch::ones_like(before);
  prototype.angular = angular_part(before, full.spectral);
  EXPECT_LT(SpectralLoss(prototype, full, wide)(after, posterior).loss.item<double>(), 1e-18);
}

Gaussian random_gaussian(int64_t size, std::mt19937& random, double spread) {
  std::uniform_real_distribution<double> uniform(0.2, 1.5);
  std::normal_distribution<double> normal;
  Gaussian out;
  for (int64_t i = 0; i < size; ++i) {
    out.mean.push_back(spread * normal(random));
    out.variance.push_back(uniform(random));
  }
  return out;
}

TEST(Theorem, ClosedFormOfW2EqualsTheTraceForm) {
  std::mt19937 random(17);
  for (int round = 0; round < 50; ++round) {
    const auto old = random_gaussian(9, random, 1), now = random_gaussian(9, random, 1);
    // tr(S + T - 2 (S^1/2 T S^1/2)^1/2) + |m - m'|^2 in whitened coordinates, where the old covariance is I; by general
    // matrices and an eigendecomposition, not by the diagonal shortcut.
    const auto whiten = torch::tensor(old.variance, at::kDouble).rsqrt().diag();
    const auto covariance = whiten.matmul(torch::tensor(now.variance, at::kDouble).diag()).matmul(whiten);
    const auto shift = whiten.matmul(torch::tensor(now.mean, at::kDouble) - torch::tensor(old.mean, at::kDouble));
    const auto root = std::get<0>(at::linalg_eigh(covariance)).sqrt().sum().item<double>();
    const double squared = shift.square().sum().item<double>() + covariance.trace().item<double>() + 9 - 2 * root;
    EXPECT_NEAR(gaussian_drift(now, old), std::sqrt(squared), 1e-10);
  }
}

TEST(Theorem, W1W2AndGaussianInsertionOnOneDimensionalLaws) {
  std::mt19937 random(18);
  constexpr int n = 4000;
  const auto moments = [](const Vector& x) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double variance = 0;
    for (double value : x) variance += (value - mean) * (value - mean) / n;
    return Gaussian{{mean}, {variance}};
  };
  for (int round = 0; round < 10; ++round) {
    std::gamma_distribution<double> skewed(1.0 + round, 1.0);
    std::normal_distribution<double> normal(round * 0.3, 1.5);
    Vector old(n), now(n);
    for (int i = 0; i < n; ++i) {
      old[i] = skewed(random);
      now[i] = normal(random) + 0.4 * skewed(random);
    }
    const auto old_law = moments(old), now_law = moments(now);
    const auto gamma = [&](const Vector& x, const Gaussian& law) {
      std::vector<Vector> rows;
      for (double value : x) rows.push_back({value});
      return non_gaussianity(rows, law, old_law.variance);
    };
    const double gamma_old = gamma(old, old_law), gamma_now = gamma(now, now_law);
    // In the metric of the old law, both laws alike.
    const double sigma = std::sqrt(old_law.variance[0]), w1 = wasserstein_1d(old, now, 1) / sigma,
                 w2 = wasserstein_1d(old, now, 2) / sigma;
    const double delta = gaussian_drift(now_law, old_law);
    EXPECT_LE(w1, w2 + 1e-12);
    EXPECT_LE(w2, gamma_now + delta + gamma_old + 2e-3);  // quantile grid of the Gaussian
    EXPECT_GT(gamma_old, 0.02) << "the law should not be Gaussian";
  }
}

TEST(Theorem, TheWassersteinBoundIsSharp) {
  // Kantorovich duality on the line: g = L sign(F_Q - F_P) integrated is L-Lipschitz and attains L W1.
  std::mt19937 random(19);
  std::normal_distribution<double> normal;
  constexpr int n = 400;
  constexpr double L = 2.5;
  Vector p(n), q(n);
  for (int i = 0; i < n; ++i) {
    p[i] = normal(random) + 0.7;
    q[i] = 1.3 * normal(random);
  }
  Vector points(p);
  points.insert(points.end(), q.begin(), q.end());
  std::sort(points.begin(), points.end());
  std::sort(p.begin(), p.end());
  std::sort(q.begin(), q.end());
  const auto below = [](const Vector& x, double at) { return std::upper_bound(x.begin(), x.end(), at) - x.begin(); };
  Vector g(points.size(), 0);
  for (size_t i = 1; i < points.size(); ++i) {
    const auto difference = below(q, points[i - 1]) - below(p, points[i - 1]);
    g[i] = g[i - 1] + L * (difference > 0 ? 1 : difference < 0 ? -1 : 0) * (points[i] - points[i - 1]);
    EXPECT_LE(std::abs(g[i] - g[i - 1]), L * (points[i] - points[i - 1]) + 1e-12);
  }
  const auto expectation = [&](const Vector& x) {
    double sum = 0;
    for (double value : x) sum += g[std::lower_bound(points.begin(), points.end(), value) - points.begin()] / n;
    return sum;
  };
  EXPECT_NEAR(expectation(p) - expectation(q), L * wasserstein_1d(p, q, 1), 1e-9);
}

TEST(Theorem, StoredMemoryBoundsTheIdealDrift) {
  std::mt19937 random(20);
  std::uniform_real_distribution<double> jitter(-0.3, 0.3);
  double tightest = 1e300;
  for (int round = 0; round < 300; ++round) {
    const auto ideal = random_gaussian(12, random, 1), now = random_gaussian(12, random, 1);
    Gaussian stored = ideal;
    for (size_t i = 0; i < 12; ++i) {
      stored.mean[i] += jitter(random);
      stored.variance[i] *= 1 + jitter(random);
    }
    ASSERT_LT(memory_error(ideal, stored).rho, 1);
    const auto bound = empirical_bound(now, ideal, stored);
    EXPECT_LE(bound.left, bound.right + 1e-12);
    tightest = std::min(tightest, bound.right / bound.left);
  }
  EXPECT_LT(tightest, 2) << "a bound that is never near says nothing";
  // The triangle step alone: the stored law itself is within xi of the ideal one.
  const auto ideal = random_gaussian(5, random, 1);
  Gaussian stored = ideal;
  for (double& value : stored.variance) value *= 1.2;
  EXPECT_LE(gaussian_drift(stored, ideal), memory_error(ideal, stored).xi + 1e-12);
}

TEST(Theorem, CoarseningNormIsTheSupremum) {
  torch::manual_seed(21);
  const auto matrix = coarsening(6, 8);
  const auto plane = make_frequency_plane(6, 8, {});
  const double kappa = coarsening_norm(plane.radial_bin, plane.angular_bin);
  EXPECT_DOUBLE_EQ(kappa, kKappa);
  double best = 0;
  for (int round = 0; round < 200; ++round) {
    auto r = torch::randn({48}, at::kDouble).pow(3 + 2 * (round % 5));
    const double ratio = length(matrix.matmul(r)) / norm1(r);
    EXPECT_LE(ratio, kappa + 1e-12);
    best = std::max(best, ratio);
  }
  EXPECT_GT(best, 0.9 * kappa);
  EXPECT_NEAR(length(matrix.select(1, 5)), kappa, 1e-12);  // attained at a unit mass
}

}  // namespace
}  // namespace asr
