// Coefficients against numbers worked out by hand, and intervals that hold them.
#include "report/correlation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace asr {
namespace {

TEST(CorrelationOf, IsThatOfTheTextbook) {
  // x 1 2 3 4 5, y 2 1 4 3 10: means 3 and 4, sums 10, 50 and 18.
  const auto found = correlation_of({{1, 2}, {2, 1}, {3, 4}, {4, 3}, {5, 10}});
  EXPECT_EQ(found.n, 5);
  EXPECT_NEAR(found.pearson, 18 / std::sqrt(10.0 * 50), 1e-12);
  EXPECT_NEAR(found.spearman, 0.8, 1e-12);  // 1 - 6 * 4 / (5 * 24)
  EXPECT_LE(found.pearson_interval.low, found.pearson);
  EXPECT_GE(found.pearson_interval.high, found.pearson);
}

TEST(CorrelationOf, EqualValuesShareARank) {
  // Ranks 1.5 1.5 3 4 and 1 2 3 4: sums 4.5, 5 and 4.5.
  const auto found = correlation_of({{1, 1}, {1, 2}, {2, 3}, {5, 4}});
  EXPECT_NEAR(found.spearman, 4.5 / std::sqrt(4.5 * 5), 1e-12);
}

TEST(CorrelationOf, ManyPointsHaveANarrowIntervalAndFewNone) {
  PairedValues line;
  for (int i = 0; i < 40; ++i) line.emplace_back(i, -2 * i + (i % 3));
  const auto found = correlation_of(line);
  EXPECT_LT(found.pearson_interval.high, -0.98);
  EXPECT_TRUE(found.spearman_interval.known());
  EXPECT_FALSE(std::isfinite(correlation_of({{1, 2}, {2, 3}}).pearson));
  EXPECT_FALSE(std::isfinite(correlation_of({{1, 2}, {1, 3}, {1, 4}}).pearson));
}

}  // namespace
}  // namespace asr
