// Choosing few samples out of many: every number here is worked out by hand or with plain loops in double.
#include "methods/terms/selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

using Rows = std::vector<int64_t>;

// Three heaps of points, far apart.
torch::Tensor three_heaps() {
  auto out = torch::zeros({30, 2});
  for (int64_t i = 0; i < 30; ++i) {
    const double turn = 2.1 * static_cast<double>(i / 10);
    out[i][0] = 10 * std::cos(turn) + 0.01 * static_cast<double>(i % 10);
    out[i][1] = 10 * std::sin(turn) - 0.02 * static_cast<double>(i % 10);
  }
  return out;
}

TEST(Selection, ClustersFindHeapsWhateverTheBatch) {
  for (const int64_t batch : {4, 1024}) {
    const auto found = clusters_of(three_heaps(), {3, batch, 100, 7});
    ASSERT_EQ(found.size(), 30u);
    for (size_t i = 0; i < 30; ++i) EXPECT_EQ(found[i], found[i / 10 * 10]) << i << ", batch " << batch;
    EXPECT_EQ(std::set<int64_t>(found.begin(), found.end()).size(), 3u);
    EXPECT_EQ(found, clusters_of(three_heaps(), {3, batch, 100, 7}));
  }
}

TEST(Selection, ClustersOfFewOrEqualRowsAreThere) {
  const auto two = clusters_of(torch::eye(2), {10, 1024, 5, 1});
  EXPECT_NE(two[0], two[1]);
  const auto equal = clusters_of(torch::ones({6, 3}), {4, 1024, 5, 1});
  EXPECT_EQ(std::set<int64_t>(equal.begin(), equal.end()).size(), 1u);
  const auto groups = rows_by_cluster({2, 0, 2});
  EXPECT_EQ(groups, (std::vector<Rows>{{1}, {}, {0, 2}}));
  EXPECT_CONTAINS(message_of([] { clusters_of(torch::ones({0, 3}), {}); }), "nothing to cluster");
}

TEST(Selection, EntropyIsOfStandardisedValuesInFiftyBins) {
  // Two values, equally often: z = -1 and 1, each alone in a bin.
  EXPECT_NEAR(score_entropy({3, 5, 3, 5}, ScoreHistogram::sound), std::log(2.0), 1e-12);
  // The unit does not count; 1 of 4 at z = sqrt 3, the others at -1 / sqrt 3.
  const double expected = -(0.25 * std::log(0.25) + 0.75 * std::log(0.75));
  for (const double unit : {1e-3, 1.0, 1e4})
    EXPECT_NEAR(score_entropy({unit, unit, unit, 2 * unit}, ScoreHistogram::sound), expected, 1e-12) << unit;
  EXPECT_EQ(score_entropy({2, 2, 2}, ScoreHistogram::sound), 0);
  EXPECT_EQ(score_entropy({}, ScoreHistogram::sound), 0);
  // As released the range is +-4 of the old deviation: with deviation 0.1 a bin is 0.016 wide and ends at 0.4, so that
  // z = -1 and 1 are outside; with deviation 100 all of it is in one or two bins about 0.
  EXPECT_EQ(score_entropy({0.1, 0.3, 0.1, 0.3}, ScoreHistogram::released), 0);
  std::vector<double> wide, narrow;
  for (int i = 0; i < 40; ++i) wide.push_back(100.0 * i);
  for (int i = 0; i < 40; ++i) narrow.push_back(i);
  EXPECT_GT(score_entropy(wide, ScoreHistogram::sound), 2.5);
  EXPECT_LT(score_entropy(wide, ScoreHistogram::released), 0.7);
  EXPECT_NEAR(score_entropy(wide, ScoreHistogram::sound), score_entropy(narrow, ScoreHistogram::sound), 1e-12);
}

TEST(Selection, ScoresOfSamples) {
  // p = (1/2, 1/4, 1/4), right: the first; and (1/10, 8/10, 1/10), right: the last. Both rows are of sample 1; sample 0
  // has the row between them, p = (1/3, 1/3, 1/3).
  const auto logits = torch::tensor({{0.5, 0.25, 0.25}, {1.0, 1.0, 1.0}, {0.1, 0.8, 0.1}}).log() + 3;
  const RowOwners owners{torch::tensor({1, 0, 1}, at::kLong), 2};
  const auto found = uncertainty(logits, torch::tensor({0, 1, 2}, at::kLong), owners);
  const double first = std::sqrt(0.25 + 0.0625 + 0.0625), second = std::sqrt(0.01 + 0.64 + 0.81);
  EXPECT_NEAR(found[1][0].item<double>(), (first + second) / 2, 1e-6);
  EXPECT_NEAR(found[0][0].item<double>(), std::sqrt(6.0) / 3, 1e-6);
  const double one = 0.5 * std::log(2.0) + 0.5 * std::log(4.0), two = 0.2 * std::log(10.0) + 0.8 * std::log(1.25);
  EXPECT_NEAR(found[1][1].item<double>(), (one + two) / 2, 1e-6);
  EXPECT_NEAR(found[0][1].item<double>(), std::log(3.0), 1e-6);
  // Answers that are worth something each: |target - p| of (1, 0.3, 0).
  const auto soft =
      uncertainty(logits.narrow(0, 0, 1), torch::tensor({{1.0, 0.3, 0.0}}), {torch::zeros({1}, at::kLong), 1});
  EXPECT_NEAR(soft[0][0].item<double>(), std::sqrt(0.25 + 0.0025 + 0.0625), 1e-6);
  const auto losses = torch::tensor({1.0, 5.0, 3.0}, at::kDouble);
  const auto sound = log_perplexities(losses, owners, PerplexityForm::sound),
             released = log_perplexities(losses, owners, PerplexityForm::released);
  EXPECT_NEAR(sound[1].item<double>(), 2, 1e-12);
  EXPECT_NEAR(released[1].item<double>(), std::log((std::exp(1.0) + std::exp(3.0)) / 2), 1e-12);
  for (const auto& form : {sound, released}) EXPECT_NEAR(form[0].item<double>(), 5, 1e-12);
}

TEST(Selection, BudgetsAreEqualUpToSizesAndPassOnTheRest) {
  const std::vector<double> equal(4, 1.0);
  EXPECT_EQ(shared_out(40, {100, 100, 100, 100}, equal), (Rows{10, 10, 10, 10}));
  // 40 / 4 = 10: 3 is full and leaves 37 for three, 12 each: 12 is full, too, 25 for two.
  EXPECT_EQ(shared_out(40, {3, 100, 12, 100}, equal), (Rows{3, 13, 12, 12}));
  EXPECT_EQ(shared_out(5, {100, 0, 100, 100}, equal), (Rows{2, 0, 2, 1}));
  EXPECT_EQ(shared_out(99, {1, 2, 0, 3}, equal), (Rows{1, 2, 0, 3}));  // more than there are
  // By weights 1 : 3, then capped.
  EXPECT_EQ(shared_out(8, {100, 100}, {1, 3}), (Rows{2, 6}));
  EXPECT_EQ(shared_out(8, {100, 4}, {1, 3}), (Rows{4, 4}));
  EXPECT_EQ(shared_out(9, {4, 100, 100}, {1, 0, 0}), (Rows{4, 3, 2}));  // no weight is left: equally
}

TEST(Selection, DrawCoversTheRangeWithoutItsTails) {
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) values.push_back(i);
  // 10 at each end are left out; of the other 180, 50 bins of 3 or 4 get 1 each.
  const auto drawn = covering_draw(values, 50, 3);
  ASSERT_EQ(drawn.size(), 50u);
  const double width = 179.0 / 50;
  std::set<int> bins;
  for (const int64_t row : drawn) {
    EXPECT_TRUE(row >= 10 && row < 190) << row;
    bins.insert(std::min(49, static_cast<int>((189 - static_cast<double>(row)) / width)));
  }
  EXPECT_EQ(bins.size(), 50u);
  EXPECT_EQ(drawn, covering_draw(values, 50, 3));
  EXPECT_NE(drawn, covering_draw(values, 50, 4));
  // Few are spread, too: 5 of 50 bins, at every tenth.
  const auto few = covering_draw(values, 5, 3);
  for (size_t i = 1; i < few.size(); ++i) EXPECT_GT(few[i] - few[i - 1], 25);
  // Where nearly all are wanted, tails are cut as far as enough are left.
  EXPECT_EQ(covering_draw(values, 200, 3).size(), 200u);
  const auto most = covering_draw(values, 196, 3);
  EXPECT_EQ(most.front(), 2);
  EXPECT_EQ(most.back(), 197);
}

TEST(Selection, WhatABinLacksIsPassedOn) {
  // One at the top, 99 together at the bottom: bin 0 has one, bins 1 to 48 none, bin 49 the rest.
  std::vector<double> values(100, 0.0);
  values[7] = 1;
  const auto drawn = covering_draw(values, 96, 1);
  EXPECT_EQ(drawn.size(), 96u);
  // All alike: a plain draw.
  EXPECT_EQ(covering_draw(std::vector<double>(10, 2.5), 4, 1).size(), 4u);
  EXPECT_TRUE(covering_draw({}, 0, 1).empty());
  EXPECT_CONTAINS(message_of([] { covering_draw({1.0}, 2, 1); }), "a draw of 2 out of 1");
}

TEST(Selection, PruningKeepsWhatIsLeastLikeTheRowsBefore) {
  // Along 0, 10, 90, 91 degrees and twice the first: cosines to the nearest row before.
  const double step = std::acos(-1.0) / 180;
  auto rows = torch::zeros({5, 2}, at::kDouble);
  const double angle[] = {0, 10, 90, 91, 0};
  for (int64_t i = 0; i < 5; ++i) {
    rows[i][0] = (i == 4 ? 2 : 1) * std::cos(angle[i] * step);
    rows[i][1] = (i == 4 ? 2 : 1) * std::sin(angle[i] * step);
  }
  const auto near = nearest_before(rows);
  EXPECT_LT(near[0].item<double>(), -1);
  const double expected[] = {0, std::cos(10 * step), std::cos(80 * step), std::cos(step), 1};
  for (int64_t i = 1; i < 5; ++i) EXPECT_NEAR(near[i].item<double>(), expected[i], 1e-6) << i;
  EXPECT_EQ(least_alike(rows, {{0, 1, 2, 3, 4}}, 3), (Rows{0, 1, 2}));
  EXPECT_EQ(least_alike(rows, {{0, 1, 2, 3, 4}}, 2), (Rows{0, 2}));
  // Balanced over clusters, whose rows do not see each other: the small one keeps all it has.
  EXPECT_EQ(least_alike(rows, {{0, 1, 2, 4}, {}, {3}}, 3), (Rows{0, 2, 3}));
  // More rows than are compared at a time: the second half repeats the first.
  auto generator = at::detail::createCPUGenerator(3);
  const auto once = at::randn({600, 16}, generator, at::CPU(at::kFloat));
  const auto twice = nearest_before(at::cat({once, once}));
  EXPECT_LT(twice.narrow(0, 0, 600).max().item<double>(), 0.999);
  EXPECT_GT(twice.narrow(0, 600, 600).min().item<double>(), 0.9999);
}

TEST(Selection, SignsKeepLengthsOnAverage) {
  SignProjection short_one(8, 8, 1);
  const auto x = torch::arange(16, at::kFloat).view({2, 8});
  EXPECT_TRUE(short_one(x).equal(x));
  SignProjection project(5000, 400, 1), same(5000, 400, 1), other(5000, 400, 2);
  // Each basis vector shows its row of signs.
  auto one = torch::zeros({2, 5000});
  one[1][4999] = 20;
  const auto signs = project(one)[1];
  EXPECT_EQ(project(one)[0].abs().max().item<double>(), 0);
  EXPECT_TRUE(signs.abs().allclose(torch::ones({400})));  // 20 / sqrt(400)
  EXPECT_LT(signs.mean().abs().item<double>(), 0.25);     // 5 deviations
  EXPECT_TRUE(signs.equal(same(one)[1]));
  EXPECT_FALSE(signs.equal(other(one)[1]));
  auto generator = at::detail::createCPUGenerator(3);
  const auto y = at::randn({1, 5000}, generator, at::CPU(at::kFloat));
  // The squared length is off by a factor of 1 + sqrt(2 / 400) z.
  EXPECT_NEAR((project(y).square().sum() / y.square().sum()).item<double>(), 1, 0.35);
}

torch::Tensor normal_numbers(int64_t rows, int64_t numbers) {
  auto generator = at::detail::createCPUGenerator(3);
  return at::randn({rows, numbers}, generator, at::CPU(at::kFloat));
}

double root_mean_square(const torch::Tensor& values) {
  return values.square().mean().sqrt().item<double>();
}

// By a plain loop: 64 signs of every number drawn, the lowest bit first, row after row.
TEST(Selection, SignsUpToTheLimitAreThoseOfEarlierVersions) {
  constexpr int64_t kNumbers = 130, kDimension = 20, kSigns = kNumbers * kDimension;
  Random random({1, 0x516e, kNumbers, kDimension});
  auto signs = torch::empty({kNumbers, kDimension});
  float* sign = signs.data_ptr<float>();
  for (int64_t begin = 0; begin < kSigns; begin += 64) {
    const uint64_t bits = random.next();
    for (int64_t i = 0; i < std::min<int64_t>(64, kSigns - begin); ++i)
      sign[begin + i] = (bits >> i) & 1 ? 1.0F : -1.0F;
  }
  const auto matrix = signs / std::sqrt(static_cast<double>(kDimension));
  const auto each = torch::eye(kNumbers);
  EXPECT_TRUE(SignProjection(kNumbers, kDimension, 1)(each).equal(matrix));
  EXPECT_TRUE(SignProjection(kNumbers, kDimension, 1, kSigns)(each).equal(matrix));
  EXPECT_FALSE(SignProjection(kNumbers, kDimension, 1, kSigns - 1)(each).equal(matrix));
}

// 1000 numbers in 64 buckets: each shows its bucket's row of 40 signs, as it is or turned around.
TEST(Selection, AboveTheLimitNumbersMeetInBuckets) {
  constexpr int64_t kNumbers = 1000, kDimension = 40, kBuckets = 64, kMost = kBuckets * kDimension;
  const auto shown = [&](uint64_t key) {
    return (SignProjection(kNumbers, kDimension, key, kMost)(torch::eye(kNumbers)) * std::sqrt(40.0)).round();
  };
  const auto each = shown(5);
  EXPECT_TRUE(each.equal(shown(5)));
  EXPECT_FALSE(each.equal(shown(6)));
  EXPECT_TRUE(each.abs().equal(torch::ones({kNumbers, kDimension})));
  const auto products = each.mm(each.t());  // exact: of whole numbers
  const auto meet = products.abs().eq(kDimension).to(at::kFloat);
  // 1000 = 15 * 64 + 40: of the buckets 40 hold 16 and 24 hold 15; none holds two of the same stretch of 64.
  EXPECT_EQ(meet.sum(1).eq(16).sum().item<int64_t>(), 40 * 16);
  EXPECT_EQ(meet.sum(1).eq(15).sum().item<int64_t>(), 24 * 15);
  for (int64_t begin = 0; begin + kBuckets <= kNumbers; begin += kBuckets)
    EXPECT_EQ(meet.narrow(0, begin, kBuckets).narrow(1, begin, kBuckets).sum().item<double>(), kBuckets) << begin;
  // Of the 936 pairs a stride apart one in 64 meets: 14.6, deviation 3.8. In 40 * 120 + 24 * 105 pairs that meet, as
  // many signs agree as differ: a sum of 7320 signs, deviation 86. Five deviations each.
  EXPECT_LT(meet.diagonal(kBuckets).sum().item<double>(), 34);
  EXPECT_LT(std::abs((products * meet).triu(1).sum().item<double>() / kDimension), 430);
}

// Of N numbers in m buckets and d dimensions, for unit vectors whose cosine is c: an inner product has a variance of
// (1 + c^2) (1/m + 1/d), up to parts of 1/N and 1/(m d), a cosine one of (1 - c^2)^2 (1/m + 1/d). Over 400 vectors the
// root mean square of a normal error is off by 3.5 %, its mean by a twentieth of the deviation.
TEST(Selection, AboveTheLimitLengthsAndCosinesStay) {
  constexpr int64_t kVectors = 400, kNumbers = 4000, kDimension = 200, kBuckets = 400;
  const double spread = std::sqrt(1.0 / kDimension + 1.0 / kBuckets);
  SignProjection project(kNumbers, kDimension, 7, kBuckets * kDimension);
  const auto drawn = normal_numbers(2 * kVectors, kNumbers);
  const auto x = drawn.narrow(0, 0, kVectors), y = x + 1.5 * drawn.narrow(0, kVectors, kVectors);
  const auto error_of_length = [&](const torch::Tensor& of) {
    return project(of).square().sum(1) / of.square().sum(1) - 1;
  };
  const auto cosines = [](const torch::Tensor& a, const torch::Tensor& b) {
    return (a * b).sum(1) / (a.norm(2, 1) * b.norm(2, 1));
  };
  const auto lengths = error_of_length(x), truth = cosines(x, y), angles = cosines(project(x), project(y)) - truth;
  const double length_spread = std::sqrt(2.0) * spread,
               angle_spread = (1 - truth.square().mean().item<double>()) * spread;
  EXPECT_NEAR(root_mean_square(lengths) / length_spread, 1, 0.2);
  EXPECT_NEAR(root_mean_square(angles) / angle_spread, 1, 0.2);
  EXPECT_LT(lengths.mean().abs().item<double>(), 0.25 * length_spread);
  EXPECT_LT(angles.mean().abs().item<double>(), 0.25 * angle_spread);
  // Large at every m-th number alone, as gradients are: by the remainder of their index all ten would share a bucket,
  // and the squared length would be off by sqrt(2 * 9 / 10), ten times as much.
  auto strided = torch::zeros({kBuckets, kNumbers});
  for (int64_t i = 0; i < kBuckets; ++i) strided[i].slice(0, i, kNumbers, kBuckets).fill_(1);
  EXPECT_LT(root_mean_square(error_of_length(strided)), 1.3 * length_spread);
}

// Whole numbers, whose sums no order rounds.
TEST(Selection, AboveTheLimitAVectorDoesNotDependOnItsBatch) {
  constexpr int64_t kNumbers = 1000;
  SignProjection project(kNumbers, 40, 5, 64 * 40);
  const auto x = normal_numbers(7, kNumbers).mul(3).round();
  const auto together = project(x);
  for (int64_t i = 0; i < 7; ++i) EXPECT_TRUE(project(x.narrow(0, i, 1)).equal(together.narrow(0, i, 1))) << i;
  EXPECT_TRUE(project(x.narrow(0, 2, 5)).equal(together.narrow(0, 2, 5)));
  EXPECT_TRUE(SignProjection(kNumbers, 40, 5, 64 * 40)(x.flip(0)).flip(0).equal(together));
  // The sums of what each number gives.
  const auto each = (project(torch::eye(kNumbers)) * std::sqrt(40.0)).round();
  EXPECT_TRUE(together.allclose(x.mm(each) / std::sqrt(40.0)));
  EXPECT_TRUE(project(x.to(at::kDouble)).allclose(together.to(at::kDouble), 1e-5));
}

// A matrix of 2^17 columns may have 2^16 rows, fewer than it gives: sums are all there is, and no matrix is drawn.
TEST(Selection, AboveTheLimitManyDimensionsNeedNoMatrix) {
  constexpr int64_t kNumbers = 200000, kDimension = 1 << 17;
  SignProjection project(kNumbers, kDimension, 1);
  const auto ones = project(torch::ones({1, kNumbers}));
  ASSERT_EQ(ones.size(1), kDimension);
  // The first 2^17 numbers have a bucket each, with another one in 68,928 of them: -2, 0 or 2, and 1 or -1 elsewhere.
  EXPECT_EQ(ones.abs().eq(1).sum().item<int64_t>(), 2 * kDimension - kNumbers);
  EXPECT_EQ((ones.eq(0) + ones.abs().eq(2)).sum().item<int64_t>(), kNumbers - kDimension);
  // Signs are random: half of those sums are 0, five deviations of sqrt(68,928) / 2.
  EXPECT_NEAR(ones.eq(0).sum().item<double>(), 0.5 * (kNumbers - kDimension), 660);
}

}  // namespace
}  // namespace asr
