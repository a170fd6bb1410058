// Student's t, the mean over settings and Holm's correction against numbers computed elsewhere (Simpson's rule over the
// density, formulas by hand); the choice of points and of longer grids; the verdict on a stream.
#include "report/t_test.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/admission.h"
#include "report/choice.h"

namespace asr {
namespace {

TEST(TTest, DistributionMatchesIntegration) {
  EXPECT_NEAR(two_sided_p(2.0, 1), 0.295167235300863, 1e-10);
  EXPECT_NEAR(two_sided_p(-3.5, 2.5), 0.05234554696034, 1e-9);
  EXPECT_NEAR(two_sided_p(0.1, 40), 0.92084385304528, 1e-9);
  EXPECT_NEAR(critical_t(0.05, 5), 2.570581835636, 1e-9);
  EXPECT_NEAR(critical_t(0.05, 2), 4.302652729696, 1e-9);
  EXPECT_TRUE(std::isnan(two_sided_p(1, 0)));
}

TEST(TTest, PairedDifferences) {
  const auto test = paired_t({1.2, 0.4, 2.1, -0.3, 1.7, 0.9});
  EXPECT_EQ(test.n, 6);
  EXPECT_NEAR(test.mean, 1.0, 1e-12);
  EXPECT_NEAR(test.error, 0.35590260840104, 1e-12);
  EXPECT_NEAR(test.p, 0.03755896728446, 1e-10);
  EXPECT_NEAR(test.interval.low, 1 - 2.570581835636 * 0.35590260840104, 1e-9);
  EXPECT_NEAR(test.interval.high, 1 + 2.570581835636 * 0.35590260840104, 1e-9);
  // Nothing to go by: one pair, or differences that are all the same.
  EXPECT_TRUE(std::isnan(paired_t({3}).p));
  EXPECT_TRUE(std::isnan(paired_t({0.1 + 0.2, 0.3, 0.3}).p));
  EXPECT_EQ(paired_t({NAN, 1, 2}).n, 2);
}

TEST(TTest, OverallTakesItsErrorFromSeedsWithinSettings) {
  const std::vector<std::vector<double>> settings = {
      {1.0, 2.0, 3.0, 2.0, 1.5, 2.5}, {-0.5, 0.7, 0.1, -0.3, 0.4, -0.1}, {4, 6, 5}};
  const auto all = overall_t(settings);
  EXPECT_EQ(all.n, 3);
  EXPECT_EQ(all.agree, 3);
  EXPECT_NEAR(all.mean, 2.35, 1e-12);
  EXPECT_NEAR(all.error, 0.22356538524888, 1e-12);
  EXPECT_NEAR(all.freedom, 3.53978788876264, 1e-9);
  EXPECT_NEAR(all.p, 0.0008559261068, 1e-9);
  EXPECT_NEAR(all.interval.low, 1.6961235921437, 1e-8);
  auto turned = settings;
  for (double& value : turned[1]) value = -value;
  EXPECT_EQ(overall_t(turned).agree, 2);
  EXPECT_TRUE(std::isnan(overall_t({{1, 2, 3}, {5}}).p));  // one seed says nothing of its error
  EXPECT_EQ(overall_t({}).n, 0);
}

TEST(TTest, HolmStepsDown) {
  const auto adjusted = holm({0.01, 0.04, 0.03, 0.005, 0.6});
  const std::vector<double> expected = {0.04, 0.09, 0.09, 0.025, 0.6};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(adjusted[i], expected[i], 1e-12) << i;
  // A contrast without a test still counts among those that were planned.
  const auto with_gap = holm({0.02, NAN});
  EXPECT_NEAR(with_gap[0], 0.04, 1e-12);
  EXPECT_TRUE(std::isnan(with_gap[1]));
  EXPECT_EQ(holm({0.9, 0.8})[0], 1.0);
}

TEST(Choice, BestMeansFirstAndDivergedNever) {
  const std::vector<ScoredPoint> points = {
      {"a", {10, 20}}, {"b", {16, 15}}, {"c", {NAN, 99}}, {"d", {15, 16}}, {"e", {}}};
  EXPECT_EQ(best_points(points, 9), (std::vector<size_t>{1, 3, 0}));
  EXPECT_EQ(best_points(points, 2), (std::vector<size_t>{1, 3}));
  EXPECT_TRUE(best_points({{"x", {NAN}}}, 1).empty());
}

TEST(Choice, RatesGoOnBeyondTheEnd) {
  const std::vector<double> rates = {0.0005, 0.001, 0.002, 0.005};
  EXPECT_NEAR(rate_beyond(rates, 0.005), 0.01, 1e-12);
  EXPECT_NEAR(rate_beyond(rates, 0.0005), 0.0002, 1e-12);
  EXPECT_TRUE(std::isnan(rate_beyond(rates, 0.002)));
  EXPECT_NEAR(rate_beyond({0.01, 0.005}, 0.01), 0.02, 1e-12);
  EXPECT_NEAR(rate_beyond({0.001, 0.002}, 0.001), 0.0005, 1e-12);
  EXPECT_NEAR(rate_beyond({0.001, 0.003}, 0.003), 0.006, 1e-12);
  EXPECT_TRUE(std::isnan(rate_beyond({0.1}, 0.1)));
}

TEST(Admission, NeedsAllThree) {
  AdmissionScores scores;
  scores.zero_shot = {14, 14, 14};
  scores.vanilla_ap = {20, 21, 22};
  scores.vanilla_af = {26, 27, 28};
  scores.vanilla_mft = {43, 44, 45};
  scores.joint_ap = {50, 53, 53};
  scores.best_mft = {49, 50, 48};
  const auto good = judge_admission(scores);
  EXPECT_TRUE(good.admitted());
  EXPECT_NEAR(good.over_vanilla.mean, 31, 1e-12);
  EXPECT_NEAR(good.over_vanilla.interval.low, 31 - 4.302652729696 * std::sqrt(1.0 / 3), 1e-8);  // 30, 32, 31
  EXPECT_NEAR(good.learnt.mean, -3, 1e-12);
  scores.best_mft = {46, 47, 45};  // 46 on average, 52 needed less 5
  const auto unlearnt = judge_admission(scores);
  ASSERT_EQ(unlearnt.missing.size(), 1u);
  EXPECT_EQ(unlearnt.missing[0], "vanilla's best MFT is -6.0 from joint's AP, at least -5 is needed");
  scores.joint_ap = {28, 29, 29};
  EXPECT_EQ(judge_admission(scores).missing.size(), 2u);  // neither 8 above vanilla nor 20 above zero-shot
  scores.joint_ap = {NAN, NAN, NAN};
  EXPECT_EQ(judge_admission(scores).missing.size(), 3u);
}

}  // namespace
}  // namespace asr
