#include "spectral/moments.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (double value : values) sum.add(value);
  return exact_mean(sum, 1);
}

TEST(ExactSum, KnowsNoRounding) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1e300, 1, -1e300}), 1);
  EXPECT_EQ(sum_of({1, 1e-300, -1}), 1e-300);
  EXPECT_EQ(sum_of({0.1, 0.2, -0.3}), 0x1p-55) << "the three doubles do not cancel: their exact sum is 2^-55";
  const double tiny = std::numeric_limits<double>::denorm_min(), huge = std::numeric_limits<double>::max();
  EXPECT_EQ(sum_of({tiny, tiny, tiny}), 3 * tiny);
  EXPECT_EQ(sum_of({huge, huge, -huge}), huge);
  EXPECT_EQ(sum_of({-3.5, 1.25}), -2.25);
  EXPECT_CONTAINS(error_of([] { sum_of({NAN}); }), "NaN");
}

TEST(ExactSum, RoundsHalfToEven) {
  // 1 + 2^-53 lies halfway between 1 and its neighbour; a further bit decides.
  EXPECT_EQ(sum_of({1, 0x1p-53}), 1);
  EXPECT_EQ(sum_of({1, 0x1p-53, 0x1p-200}), 1 + 0x1p-52);
  EXPECT_EQ(sum_of({1 + 0x1p-52, 0x1p-53}), 1 + 0x1p-51);
}

TEST(ExactSum, MeansAreCorrectlyRounded) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int round = 0; round < 200; ++round) {
    const int n = 1 + static_cast<int>(random() % 50);
    ExactSum sum;
    long double reference = 0;  // 64 bits of precision suffice for numbers of like size
    for (int i = 0; i < n; ++i) {
      const double x = std::round(uniform(random) * 0x1p40) * 0x1p-40;
      sum.add(x);
      reference += x;
    }
    EXPECT_EQ(exact_mean(sum, n), static_cast<double>(reference / n));
  }
}

TEST(ExactSum, VarianceSurvivesCancellation) {
  // A spread of 1e-8 around 1e8: the textbook formula in doubles gives nonsense.
  ExactSum values(ExactSum::Of::values), squares(ExactSum::Of::squares);
  const std::vector<double> x = {1e8, 1e8 + 0x1p-26, 1e8 - 0x1p-26};
  for (double value : x) {
    values.add(value);
    squares.add(value);
  }
  EXPECT_EQ(exact_variance(values, squares, 3), 0x1p-52);
  ExactSum one_value(ExactSum::Of::values), one_square(ExactSum::Of::squares);
  one_value.add(3);
  one_square.add(3);
  EXPECT_EQ(exact_variance(one_value, one_square, 1), 0);
  ExactSum v(ExactSum::Of::values), q(ExactSum::Of::squares);
  for (double value : {1e-200, 3e-200}) {
    v.add(value);
    q.add(value);
  }
  EXPECT_EQ(exact_variance(v, q, 2), 0) << "2e-400 is below the smallest double";
}

TEST(ExactSum, StateRoundTrips) {
  ExactSum a;
  for (double x : {1.5, -2.25, 1e-30, -7e20}) a.add(x);
  ExactSum b;
  b.restore(a.state());
  EXPECT_EQ(exact_mean(a, 3), exact_mean(b, 3));
  EXPECT_CONTAINS(error_of([&] { b.restore({1, 2, 3}); }), "limbs");
  auto damaged = a.state();
  damaged[0] = -5;
  EXPECT_CONTAINS(error_of([&] { b.restore(damaged); }), "damaged");
}

struct Stage {
  torch::Tensor descriptor, angular, posterior;
};

Stage random_stage(int64_t samples, const Options& options, at::ScalarType type = at::kDouble) {
  return {torch::randn({samples, options.spectral.dim()}, type),
          torch::rand({samples, options.spectral.angular_bins}, type),
          torch::randn({samples, 5}, type).mul(2).softmax(-1)};
}

bool same_bits(const std::map<int64_t, SkillMoments>& a, const std::map<int64_t, SkillMoments>& b) {
  const auto equal = [](const std::vector<double>& x, const std::vector<double>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * 8) == 0;
  };
  if (a.size() != b.size()) return false;
  for (const auto& [key, m] : a) {
    const auto found = b.find(key);
    if (found == b.end() || found->second.count != m.count || !equal(found->second.mean, m.mean) ||
        !equal(found->second.variance, m.variance) || !equal(found->second.angular, m.angular))
      return false;
  }
  return true;
}

TEST(Moments, AnySplitAndAnyOrderGiveTheSameBits) {
  torch::manual_seed(2);
  Options options;
  for (auto type : {at::kDouble, at::kFloat}) {
    const auto stage = random_stage(157, options, type);
    StageMoments whole(options);
    whole.add(stage.descriptor, stage.angular, stage.posterior, {}, 0);
    for (int round = 0; round < 5; ++round) {
      const auto order = torch::randperm(157);
      std::vector<StageMoments> workers(3, StageMoments(options));
      for (int64_t begin = 0; begin < 157; begin += 10 + round) {
        const auto part = order.slice(0, begin, std::min<int64_t>(157, begin + 10 + round));
        workers[begin % 3].add(stage.descriptor.index_select(0, part), stage.angular.index_select(0, part),
                               stage.posterior.index_select(0, part), {}, 0);
      }
      StageMoments merged(options);
      for (int w : {2, 0, 1}) merged.merge(workers[(w + round) % 3]);
      EXPECT_TRUE(same_bits(whole.result(), merged.result()));
    }
  }
}

TEST(Moments, AgreeWithTheDefinition) {
  torch::manual_seed(3);
  Options options;
  const auto stage = random_stage(60, options);
  StageMoments moments(options);
  moments.add(stage.descriptor, stage.angular, stage.posterior, {}, 0);
  for (const auto& [skill, m] : moments.result()) {
    const auto chosen = stage.posterior.select(1, skill).gt(0.2).nonzero().flatten();
    const auto rows = stage.descriptor.index_select(0, chosen);
    EXPECT_EQ(m.count, chosen.numel());
    expect_close(torch::tensor(m.mean, at::kDouble), rows.mean(0), 1e-13, "mean");
    if (m.count > 1)
      expect_close(torch::tensor(m.variance, at::kDouble), rows.var(0, /*unbiased=*/true), 1e-12, "variance");
    expect_close(torch::tensor(m.angular, at::kDouble), stage.angular.index_select(0, chosen).mean(0), 1e-13,
                 "angular");
  }
}

TEST(Moments, VariantsChooseTheirSamples) {
  torch::manual_seed(4);
  Options options;
  const auto stage = random_stage(40, options);
  const auto run = [&](const Options& o) {
    StageMoments moments(o);
    moments.add(stage.descriptor, stage.angular, stage.posterior, {}, 7);
    return moments.result();
  };
  options.asr.prototypes = Prototypes::global;
  auto result = run(options);
  ASSERT_EQ(result.size(), 1u);
  EXPECT_EQ(result.at(0).count, 40) << "the global prototype ignores parser and threshold";
  options.asr.prototypes = Prototypes::task;
  result = run(options);
  ASSERT_EQ(result.size(), 1u);
  EXPECT_EQ(result.at(7).count, 40);
  options.asr.prototypes = Prototypes::skill;
  options.asr.skill = SkillMode::hard;
  int64_t total = 0;
  for (const auto& [skill, m] : run(options)) total += m.count;
  EXPECT_EQ(total, 40) << "hard: each sample counts for exactly one skill";
}

TEST(Moments, BadStagesAreNamed) {
  Options options;
  const auto good = random_stage(4, options);
  const auto message = [&](const torch::Tensor& d, const torch::Tensor& a, const torch::Tensor& p) {
    return error_of([&] { StageMoments(options).add(d, a, p, {}, 0); });
  };
  EXPECT_CONTAINS(message(good.descriptor.slice(1, 0, 5), good.angular, good.posterior), "expected [N, 54]");
  EXPECT_CONTAINS(message(good.descriptor, good.angular.slice(0, 0, 3), good.posterior), "stage angular");
  EXPECT_CONTAINS(message(good.descriptor, good.angular, good.posterior * 2), "no distribution");
  EXPECT_CONTAINS(message(good.descriptor, good.angular, good.posterior.slice(0, 0, 3)), "3 rows for 4 samples");
  auto nan = good.descriptor.clone();
  nan[2][5] = NAN;
  EXPECT_CONTAINS(message(nan, good.angular, good.posterior), "NaN");
  options.asr.spectrum = Spectrum::raw;
  EXPECT_CONTAINS(message(good.descriptor, good.angular, good.posterior), "needs the stage's maps");
}

}  // namespace
}  // namespace asr
