// Moments of keys and what they say of a new key, against numbers computed with plain loops.
#include "methods/terms/key_moments.h"

#include <gtest/gtest.h>

#include "tests/methods/plain_stages.h"

namespace asr {
namespace {

torch::Tensor random_keys(int64_t rows, int64_t numbers, uint64_t seed, double shift = 0) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto mix = at::randn({numbers, numbers}, generator, at::CPU(at::kFloat));
  return at::randn({rows, numbers}, generator, at::CPU(at::kFloat)).mm(mix) + shift;
}

TEST(KeyMoments, BlocksMergedAreTheWhole) {
  const auto keys = random_keys(150, 5, 1, 30);  // two whole blocks and a part
  const auto found = key_moments_in_blocks(keys);
  ASSERT_EQ(found.count, 150);
  for (int64_t i = 0; i < 5; ++i) {
    double mean = 0;
    for (int64_t n = 0; n < 150; ++n) mean += at_of(keys, n, i) / 150;
    EXPECT_NEAR(found.mean[i].item<double>(), mean, 1e-9);
    for (int64_t j = 0; j < 5; ++j) {
      double other = 0, sum = 0;
      for (int64_t n = 0; n < 150; ++n) other += at_of(keys, n, j) / 150;
      for (int64_t n = 0; n < 150; ++n) sum += (at_of(keys, n, i) - mean) * (at_of(keys, n, j) - other);
      EXPECT_NEAR(at_of(found.scatter, i, j), sum, 1e-8 * std::abs(sum) + 1e-6);
    }
  }
}

TEST(KeyMoments, ScoreIsTheFormula) {
  // The second stage has few keys, so that its correction counts.
  const std::vector<torch::Tensor> stages = {random_keys(70, 3, 1), random_keys(4, 3, 2, 0.5),
                                             random_keys(40, 3, 3, 2)};
  const PlainStages plain(stages, 0.01);
  StageKeyMoments kept;
  for (const auto& keys : stages) kept.add(key_moments_in_blocks(keys));
  const KeyReading reading(kept, 0.01, KeyCovariance::full);
  EXPECT_EQ(reading.ridge(), 0.01);  // 114 keys of 3 numbers are enough
  const auto fresh = random_keys(6, 3, 9, 1);
  const auto distances = reading.distances(fresh), scores = reading.scores(distances);
  for (int64_t b = 0; b < 6; ++b)
    for (size_t t = 0; t < 3; ++t) {
      const double far = plain.distance(fresh[b], t), score = plain.score(fresh[b], t);
      EXPECT_NEAR(at_of(distances, b, static_cast<int64_t>(t)), far, 1e-4 * far) << b << " " << t;
      EXPECT_NEAR(at_of(scores, b, static_cast<int64_t>(t)), score, 1e-4 * std::abs(score)) << b << " " << t;
    }
  for (size_t t = 0; t < 3; ++t)
    EXPECT_NEAR(reading.spread()[static_cast<int64_t>(t)].item<double>(), plain.spread(t), 1e-4 * plain.spread(t));
}

// Groups are as if each were a key of its own: distances and scores add up, however the groups' numbers stand mixed.
TEST(KeyMoments, GroupsAreKeysOfTheirOwnThatAddUp) {
  const std::vector<torch::Tensor> stages = {random_keys(60, 5, 1), random_keys(70, 5, 2, 0.5)};
  const KeyGroups groups = {0, 1, 1, 0, 1};
  StageKeyMoments kept;
  kept.set_groups(groups);
  for (const auto& keys : stages) kept.add(key_moments_in_blocks(keys));
  EXPECT_EQ(kept.widest_group(5), 3);
  const KeyReading reading(kept, 0.01, KeyCovariance::full);
  const auto fresh = random_keys(4, 5, 9, 1);
  const auto distances = reading.distances(fresh), scores = reading.scores(distances);
  const auto of_group = [&](const torch::Tensor& keys, int64_t group) {
    return keys.index_select(1, torch::tensor(groups, at::kLong).eq(group).nonzero().flatten());
  };
  std::vector<PlainStages> plain;
  for (const int64_t group : {0, 1})
    plain.emplace_back(std::vector{of_group(stages[0], group), of_group(stages[1], group)}, 0.01);
  for (int64_t b = 0; b < 4; ++b)
    for (size_t t = 0; t < 2; ++t) {
      double far = 0, score = 0;
      for (const int64_t group : {0, 1}) {
        far += plain[static_cast<size_t>(group)].distance(of_group(fresh, group)[b], t);
        score += plain[static_cast<size_t>(group)].score(of_group(fresh, group)[b], t);
      }
      EXPECT_NEAR(at_of(distances, b, static_cast<int64_t>(t)), far, 1e-4 * far) << b << " " << t;
      EXPECT_NEAR(at_of(scores, b, static_cast<int64_t>(t)), score, 1e-4 * std::abs(score)) << b << " " << t;
    }
}

// How few keys are few depends on the widest group: 20 keys of groups of 3 and 2 numbers.
TEST(KeyMoments, TheRidgeOfFewKeysGoesByTheWidestGroup) {
  StageKeyMoments kept;
  kept.set_groups({0, 1, 1, 0, 1});
  kept.add(key_moments_in_blocks(random_keys(20, 5, 1)));
  EXPECT_NEAR(KeyReading(kept, 0.01, KeyCovariance::full).ridge(), 0.01 * 10 * 3 / 20, 1e-12);
}

// A cue that is constant within two stages of equal size lies one total deviation to either side, and the ridge alone
// is its variance: a key on the other side is 2 deviations away, 4 / ridge. Divided by its deviation within stages,
// which is nothing, it would outweigh all else.
TEST(KeyMoments, AConstantCueIsMeasuredByItsTotalDeviation) {
  StageKeyMoments kept;
  for (const double cue : {3.0, 3.25}) {
    auto keys = random_keys(50, 4, cue > 3 ? 5 : 6);
    keys.select(1, 0).fill_(cue);
    kept.add(key_moments_in_blocks(keys));
  }
  const KeyReading reading(kept, 1e-3, KeyCovariance::full);
  auto other = kept.of(0).mean.clone();
  other[0] = 3.25;
  EXPECT_NEAR(at_of(reading.distances(other.unsqueeze(0)), 0, 0), 4 / 1e-3, 1e-2);
}

TEST(KeyMoments, ACueThatIsConstantWithinStagesDecides) {
  // The first number says the stage and never varies within one; the others are noise, and correlated.
  std::vector<torch::Tensor> stages;
  for (const double cue : {0.0, 0.01}) {
    auto keys = random_keys(50, 4, cue > 0 ? 5 : 6);
    keys.select(1, 0).fill_(cue);
    stages.push_back(keys);
  }
  StageKeyMoments kept;
  for (const auto& keys : stages) kept.add(key_moments_in_blocks(keys));
  const KeyReading reading(kept, 1e-3, KeyCovariance::full);
  for (int64_t t = 0; t < 2; ++t) {
    auto fresh = random_keys(20, 4, 11);
    fresh.select(1, 0).fill_(t == 0 ? 0.0 : 0.01);
    EXPECT_TRUE(reading.scores(reading.distances(fresh)).argmax(1).eq(t).all().item<bool>()) << t;
  }
}

TEST(KeyMoments, OnlyTheFullCovarianceSeesACorrelatedCue) {
  // Two numbers that nearly agree: their difference, small against either, tells the stages apart.
  const auto stage = [](uint64_t seed, double difference) {
    auto generator = at::detail::createCPUGenerator(seed);
    const auto common = at::randn({200, 1}, generator, at::CPU(at::kFloat));
    const auto noise = at::randn({200, 1}, generator, at::CPU(at::kFloat)) * 0.01;
    return at::cat({common, common + noise + difference}, 1);
  };
  StageKeyMoments kept;
  kept.add(key_moments_in_blocks(stage(1, 0)));
  kept.add(key_moments_in_blocks(stage(2, 0.2)));
  const auto fresh = stage(3, 0.2);
  const auto right = [&](KeyCovariance covariance) {
    const KeyReading reading(kept, 1e-4, covariance);
    return reading.scores(reading.distances(fresh)).argmax(1).eq(1).to(at::kDouble).mean().item<double>();
  };
  EXPECT_GT(right(KeyCovariance::full), 0.98);
  EXPECT_LT(right(KeyCovariance::diagonal), 0.75);
}

TEST(KeyMoments, FewAndEqualKeysStillRead) {
  StageKeyMoments kept;
  kept.add(key_moments_in_blocks(random_keys(2, 16, 1)));
  kept.add(key_moments_in_blocks(random_keys(1, 16, 2)));
  const KeyReading few(kept, 1e-3, KeyCovariance::full);
  EXPECT_NEAR(few.ridge(), 1e-3 * 10 * 16 / 3, 1e-12);
  EXPECT_TRUE(at::isfinite(few.scores(few.distances(random_keys(5, 16, 3)))).all().item<bool>());
  StageKeyMoments same;
  for (int i = 0; i < 2; ++i) same.add(key_moments_in_blocks(torch::ones({3, 4})));
  const KeyReading equal(same, 0, KeyCovariance::full);
  EXPECT_GT(equal.ridge(), 0);  // no variance at all has no Cholesky factor
  const auto scores = equal.scores(equal.distances(torch::ones({1, 4})));
  EXPECT_EQ(at_of(scores, 0, 0), at_of(scores, 0, 1));
}

TEST(KeyMoments, QuantileLeavesRoomForNewValues) {
  const auto values = torch::tensor({5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0}, at::kDouble);
  EXPECT_EQ(upper_quantile(values, 0.5), 5);   // the fifth of nine: ceil(0.5 * 10)
  EXPECT_EQ(upper_quantile(values, 0.81), 9);  // ceil(8.1)
  EXPECT_EQ(upper_quantile(values, 0.99), std::numeric_limits<double>::infinity());  // no tenth
}

}  // namespace
}  // namespace asr
