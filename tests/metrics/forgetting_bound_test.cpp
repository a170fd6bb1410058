// Theorem 1's quantities on laws where they are known: shifted copies, permutations, Gaussians, two-point laws.
#include "metrics/forgetting_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "metrics/assignment.h"
#include "tests/support/files.h"

namespace asr {
namespace {

using Rows = std::vector<Vector>;

Rows random_rows(size_t n, size_t size, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Rows out(n, Vector(size));
  for (auto& row : out)
    for (double& value : row) value = normal(random);
  return out;
}

Rows shifted_by(Rows rows, const Vector& shift) {
  for (auto& row : rows)
    for (size_t d = 0; d < row.size(); ++d) row[d] += shift[d];
  return rows;
}

// One coordinate at the quantiles (i - 1/2)/n of N(mean, deviation^2).
Rows normal_grid(size_t n, double mean, double deviation) {
  Rows out;
  for (size_t i = 0; i < n; ++i)
    out.push_back({mean + deviation * normal_quantile((static_cast<double>(i) + 0.5) / static_cast<double>(n))});
  return out;
}

PairedSamples paired(const Rows& old_rows, const Rows& new_rows) {
  return {old_rows, new_rows, Vector(old_rows.size(), 1), Vector(old_rows.size(), 1)};
}

double cheapest_by_trying_all(const Rows& cost) {
  std::vector<size_t> order(cost.size());
  std::iota(order.begin(), order.end(), size_t(0));
  double best = INFINITY;
  do {
    double sum = 0;
    for (size_t i = 0; i < order.size(); ++i) sum += cost[i][order[i]];
    best = std::min(best, sum);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(Assignment, IsTheCheapestOfAll) {
  std::mt19937 random(31);
  for (size_t n = 1; n <= 7; ++n)
    for (int round = 0; round < 40; ++round) {
      Rows cost(n, Vector(n));
      for (auto& row : cost)  // every other round has many ties
        for (double& value : row) value = round % 2 ? double(random() % 3) : double(random() % 100000) / 1000;
      const auto columns = cheapest_assignment(cost);
      auto sorted = columns;
      std::sort(sorted.begin(), sorted.end());
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(sorted[i], i) << "each column once";
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += cost[i][columns[i]];
      EXPECT_NEAR(sum, cheapest_by_trying_all(cost), 1e-12 * static_cast<double>(n) * 100);
    }
  EXPECT_TRUE(cheapest_assignment({}).empty());
  EXPECT_CONTAINS(error_of([] { cheapest_assignment({{1, 2}}); }), "as many columns as rows");
  EXPECT_CONTAINS(error_of([] { cheapest_assignment({{NAN}}); }), "not finite");
}

TEST(Assignment, OnALineItIsTheSortedMatching) {
  std::mt19937 random(32);
  for (int round = 0; round < 10; ++round) {
    const auto a = random_rows(60, 1, random), b = shifted_by(random_rows(60, 1, random), {0.1 * round});
    Vector x, y;
    for (size_t i = 0; i < a.size(); ++i) {
      x.push_back(a[i][0]);
      y.push_back(b[i][0]);
    }
    EXPECT_NEAR(wasserstein_1(a, b, {4.0}), wasserstein_1d(x, y, 1) / 2, 1e-12);
  }
}

TEST(ForgettingBound, APermutationIsTheSameLaw) {
  std::mt19937 random(33);
  const auto rows = random_rows(100, 5, random);
  auto moved = rows;
  std::shuffle(moved.begin(), moved.end(), random);
  const auto found = drift_of_skill(paired(rows, moved), 1e-6);
  EXPECT_EQ(found.w1, 0) << "each sample meets itself";
  EXPECT_NEAR(found.delta, 0, 1e-12);  // sums in another order
  EXPECT_NEAR(found.gamma_new, found.gamma_old, 1e-12);
}

TEST(ForgettingBound, AShiftedCopyIsAsFarAsTheShift) {
  std::mt19937 random(34);
  const auto rows = random_rows(120, 3, random);
  const Vector shift = {0.5, -1.5, 0.25};
  const auto found = drift_of_skill(paired(rows, shifted_by(rows, shift)), 1e-6);
  const auto law = law_of(rows);
  double expected = 0;
  for (size_t d = 0; d < 3; ++d) expected += shift[d] * shift[d] / law.variance[d];
  expected = std::sqrt(expected);
  EXPECT_NEAR(found.w1, expected, 1e-12);  // no matching moves the mean by less
  EXPECT_NEAR(found.delta, expected, 1e-12);
  EXPECT_EQ(drift_of_rows(rows, shifted_by(rows, shift), 1e-6), found.delta);
  EXPECT_NEAR(found.gamma_new, found.gamma_old, 1e-12);
}

TEST(ForgettingBound, GaussiansHaveTheirClosedForms) {
  for (const double mean : {0.0, 2.0})
    for (const double deviation : {0.5, 1.0, 3.0}) {
      const auto old_rows = normal_grid(256, 1, 2), new_rows = normal_grid(256, 1 + mean, 2 * deviation);
      const auto found = drift_of_skill(paired(old_rows, new_rows), 1e-6);
      // In units of the old deviation: N(0, 1) and N(mean / 2, deviation^2). The grid cuts the tails off.
      EXPECT_NEAR(found.delta, std::hypot(mean / 2, deviation - 1), 0.02);
      EXPECT_LT(found.gamma_old, 0.02) << "a Gaussian is its own";
      EXPECT_LT(found.gamma_new, 0.02 * deviation);
      if (mean == 0) {
        EXPECT_NEAR(found.w1, std::abs(deviation - 1) * std::sqrt(2 / M_PI), 0.02);
      }
      if (deviation == 1) {
        EXPECT_NEAR(found.w1, mean / std::sqrt(law_of(old_rows).variance[0]), 1e-9);
      }
      EXPECT_LE(found.w1, found.gaussian_drift() + 1e-9);
    }
}

// W2^2 between the law of a fair coin on -c, c and N(0, c^2) is 2 c^2 (1 - sqrt(2 / pi)).
TEST(ForgettingBound, NonGaussianityIsMeasuredInTheOldMetric) {
  const size_t n = 4000;
  const auto coin = [n](double c) {
    Rows out;
    for (size_t i = 0; i < n; ++i) out.push_back({i % 2 ? c : -c});
    return out;
  };
  const double unit = std::sqrt(2 * (1 - std::sqrt(2 / M_PI)));
  for (const double old_deviation : {0.5, 1.0, 4.0}) {
    const Vector metric = {old_deviation * old_deviation};
    EXPECT_NEAR(non_gaussianity(coin(3), {{0}, {9}}, metric), 3 * unit / old_deviation, 1e-3 * 3 / old_deviation);
  }
  const auto found = drift_of_skill(paired(coin(1), coin(3)), 1e-6);
  EXPECT_NEAR(found.gamma_old, unit, 2e-3);
  EXPECT_NEAR(found.gamma_new, 3 * unit, 6e-3);
  EXPECT_NEAR(found.w1, 2, 2e-3);
  EXPECT_EQ(found.matched, 256);
  EXPECT_EQ(found.samples, 4000);
  // A coordinate that never moves is its own Gaussian, whatever the floor of the metric.
  const Rows still(10, Vector{7});
  EXPECT_EQ(non_gaussianity(still, law_of(still), {1e-6}), 0);
}

TEST(ForgettingBound, TriangleOfTheoremOneOnRandomLaws) {
  std::mt19937 random(35);
  for (int round = 0; round < 10; ++round) {
    // One coordinate, where the marginals are the law and Gamma is no lower estimate; the grid's tails are the slack.
    std::gamma_distribution<double> skewed(1.0 + round, 1.0);
    Rows old_rows(200), new_rows(200);
    for (auto& row : old_rows) row = {skewed(random)};
    for (auto& row : new_rows) row = {0.7 * skewed(random) + 0.2 * round};
    const auto found = drift_of_skill(paired(old_rows, new_rows), 1e-6);
    EXPECT_LE(found.w1, found.gaussian_drift() + 0.05);
    EXPECT_GT(found.gamma_old, 0.02);
  }
}

// Risk that is a Lipschitz function of the descriptor, here its first coordinate: the fit finds the constant.
TEST(ForgettingBound, FindsLipschitzConstantAndIsTightWhereRiskFollowsTheLaw) {
  constexpr double kSlope = 0.03;
  std::vector<Transition> transitions;
  for (int t = 0; t < 4; ++t) {
    Transition transition{t + 1, t + 2, {}};
    for (const int64_t skill : {0, 3}) {
      const size_t n = skill == 0 ? 30 : 10;
      auto samples = paired(normal_grid(n, 0, 1), normal_grid(n, 0.5 * (t + 1), 1));
      // The metric is the samples' own deviation; one unit of it costs kSlope.
      const double deviation = std::sqrt(law_of(samples.old_rows).variance[0]);
      for (size_t i = 0; i < n; ++i) {
        samples.old_score[i] = 0.9 - kSlope * samples.old_rows[i][0] / deviation;
        samples.new_score[i] = 0.9 - kSlope * samples.new_rows[i][0] / deviation;
      }
      transition.skills.push_back(drift_of_skill(samples, 1e-6));
      transition.skills.back().skill = skill;
    }
    fill_shares(transition);
    EXPECT_DOUBLE_EQ(transition.skills[0].share, 0.75);
    EXPECT_NEAR(transition.skills[0].old_risk, 0.1, 1e-12);
    transitions.push_back(transition);
  }
  const auto fits = fit_skills(transitions);
  ASSERT_EQ(fits.size(), 2u);
  for (const auto& [skill, fit] : fits) {
    EXPECT_EQ(fit.points, 4);
    EXPECT_NEAR(fit.fit.lipschitz, kSlope, 1e-9);
    EXPECT_NEAR(fit.fit.epsilon, 0, 1e-9);
  }
  for (size_t i = 0; i < transitions.size(); ++i) {
    for (const size_t left_out : {kNoneLeftOut, i}) {
      const auto bound = forgetting_bound(transitions[i], fit_skills(transitions, left_out));
      EXPECT_GT(bound.forgetting, 0.01);
      EXPECT_NEAR(bound.by_w1, bound.forgetting, 1e-9) << "nothing is lost: the surrogate is the risk";
      EXPECT_GE(bound.by_gaussian, bound.by_w1 - 1e-9);
    }
  }
  // A skill seen in one transition alone has no fit from the others.
  transitions.resize(1);
  EXPECT_TRUE(std::isnan(forgetting_bound(transitions[0], fit_skills(transitions, 0)).by_w1));
}

TEST(ForgettingBound, FitOfKnownPoints) {
  const auto exact = fit_risk({1, 2, 4}, {0.1, 0.2, 0.4});
  EXPECT_NEAR(exact.lipschitz, 0.1, 1e-15);
  EXPECT_NEAR(exact.epsilon, 0, 1e-15);
  // Slope (1 * 0.3 + 1 * 0.1) / 2; the worst point lies 0.1 above it, half of that is epsilon.
  const auto loose = fit_risk({1, 1}, {0.3, 0.1});
  EXPECT_NEAR(loose.lipschitz, 0.2, 1e-15);
  EXPECT_NEAR(loose.epsilon, 0.05, 1e-15);
  // Risk that falls asks for no constant, and nothing to spare.
  const auto better = fit_risk({1, 2}, {-0.1, -0.3});
  EXPECT_EQ(better.lipschitz, 0);
  EXPECT_EQ(better.epsilon, 0);
}

TEST(ForgettingBound, BadSamplesAreNamed) {
  EXPECT_CONTAINS(error_of([] { drift_of_skill(paired({{1}}, {{1}}), 1e-6); }), "two or more");
  EXPECT_CONTAINS(error_of([] { drift_of_skill(paired({{1}, {2}}, {{1}, {2}, {3}}), 1e-6); }), "same samples twice");
  EXPECT_CONTAINS(error_of([] { wasserstein_1({{1}}, {}, {1}); }), "as many of each");
}

TEST(SixNumbers, BandsOfRadiusAndOrientation) {
  // Eight radial bins have centres 1/16, 3/16, ...: three, two and three of them in the thirds.
  const auto found = six_number_summary({1, 2, 4, 8, 16, 32, 64, 128}, {1, 2, 4, 8, 16, 32, 64, 128});
  EXPECT_DOUBLE_EQ(found[0], 7);
  EXPECT_DOUBLE_EQ(found[1], 24);
  EXPECT_DOUBLE_EQ(found[2], 224);
  // Centres -157.5, -112.5, ... fold to 22.5, 67.5, 112.5, 157.5 degrees, twice.
  EXPECT_DOUBLE_EQ(found[3], (1.0 + 16) / 2);
  EXPECT_DOUBLE_EQ(found[4], (2.0 + 4 + 32 + 64) / 4);
  EXPECT_DOUBLE_EQ(found[5], (8.0 + 128) / 2);
}

TEST(Separation, OfTwoPairsOfPoints) {
  // Means (0, 0) and (6, 8), ten apart; every sample one from its own.
  EXPECT_DOUBLE_EQ(separation({{1, 0}, {-1, 0}, {6, 9}, {6, 7}}, {2, 2, 5, 5}), 10);
  EXPECT_TRUE(std::isnan(separation({{1}, {2}}, {0, 0}))) << "one skill";
  EXPECT_TRUE(std::isnan(separation({{1}, {2}}, {0, 1}))) << "no spread within skills";
}

}  // namespace
}  // namespace asr
