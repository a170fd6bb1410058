// A bounded pool of ranks: its schedule, what is dropped, what a query chooses, and how far two pools are apart.
#include "methods/terms/rank_pool.h"

#include <gtest/gtest.h>

#include <cmath>

namespace asr {
namespace {

TEST(RankPool, ScheduleIsThePublishedOneAtItsSize) {
  const RankSchedule coin{256, 64};
  const int64_t past[] = {0, 64, 128, 192, 192, 192, 224, 224}, fresh[] = {64, 64, 64, 64, 64, 64, 32, 32},
                drops[] = {0, 0, 0, 4, 4, 8, 8, 8};
  for (int stage = 1; stage <= 8; ++stage) {
    const auto at = coin.at(stage);
    EXPECT_EQ(at.past, past[stage - 1]) << stage;
    EXPECT_EQ(at.fresh, fresh[stage - 1]) << stage;
    EXPECT_EQ(at.drops, drops[stage - 1]) << stage;
    EXPECT_EQ(coin.compressed_before(stage), stage > 4);
  }
  EXPECT_EQ(coin.most_past(), 224);
}

TEST(RankPool, ScheduleStaysWithinAnyBound) {
  for (const int64_t learnt : {1, 3, 5, 16})
    for (const int64_t pool : {2, 3, 4, 7}) {
      const RankSchedule schedule{pool * learnt, learnt};
      for (int stage = 1; stage <= 40; ++stage) {
        const auto at = schedule.at(stage);
        EXPECT_GE(at.fresh, 1) << learnt << " " << pool << " " << stage;
        EXPECT_LE(at.past + at.fresh, schedule.ranks);
        EXPECT_LE(at.past, schedule.most_past());
        EXPECT_EQ(at.drops > 0, stage >= pool) << learnt << " " << pool << " " << stage;
      }
    }
}

TEST(RankPool, EveryMthRankIsDropped) {
  EXPECT_EQ(without_every(4, 0, 8), (std::vector<int64_t>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(without_every(4, 8, 4), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(without_every(4, 3, 3), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(without_every(0, 0, 3), (std::vector<int64_t>{0, 1, 2}));
}

TEST(RankPool, ScoresWeighThePictureByItsWidth) {
  // Text parts of 2 numbers, picture parts of 1: cosines of 60 degrees and of the opposite.
  const auto query = torch::tensor({{2.0, 0.0, 3.0}}), keys = torch::tensor({{0.5, std::sqrt(0.75), -1.0}});
  const QueryScores scores{2, 0.25};
  EXPECT_NEAR(scores(query, keys)[0][0].item<double>(), 0.5 - 0.25, 1e-6);
  // Nothing to see: the text alone counts.
  EXPECT_NEAR(scores(torch::tensor({{2.0, 0.0, 0.0}}), keys)[0][0].item<double>(), 0.5, 1e-6);
}

TEST(RankPool, ChoiceIsHardAndEachSamplesOwn) {
  const auto scores = torch::tensor({{3.0, 1.0, 2.0, 2.0}, {0.0, 5.0, 5.0, 5.0}});
  EXPECT_TRUE(largest_of(scores, 2, RankChoice::sample).equal(torch::tensor({{1., 0., 1., 0.}, {0., 1., 1., 0.}})));
  // Sums 3, 6, 7, 7.
  EXPECT_TRUE(largest_of(scores, 2, RankChoice::batch).equal(torch::tensor({{0., 0., 1., 1.}, {0., 0., 1., 1.}})));
  EXPECT_TRUE(largest_of(scores, 9, RankChoice::sample).equal(torch::ones({2, 4})));
  EXPECT_TRUE(largest_of(scores, -1, RankChoice::sample).equal(torch::zeros({2, 4})));
}

TEST(RankPool, DivergenceIsOnTheTeachersLargestChoices) {
  // Top 2 of the teacher are choices 0 and 2; tempered by 2 their odds are 4^(1/2) = 2 : 1; the student's 1 : 1.
  const auto teacher = torch::tensor({{4.0, 0.5, 1.0}}).log(), student = torch::tensor({{3.0, 90.0, 3.0}}).log();
  const double expected = 2.0 / 3 * std::log(2.0 / 3 / 0.5) + 1.0 / 3 * std::log(1.0 / 3 / 0.5);
  const TopDivergence divergence{2, 2};
  EXPECT_NEAR(divergence(teacher, student, torch::tensor({0}, at::kLong)).item<double>(), expected, 1e-6);
  // A sample of two rows, one of them equal, and a sample of one: (expected / 2 + 0) / 2.
  const auto t = at::cat({teacher, teacher, teacher}), s = at::cat({student, teacher, teacher});
  EXPECT_NEAR(divergence(t, s, torch::tensor({0, 0, 1}, at::kLong)).item<double>(), expected / 4, 1e-6);
}

}  // namespace
}  // namespace asr
