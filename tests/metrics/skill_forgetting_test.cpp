#include "metrics/skill_forgetting.h"

#include <gtest/gtest.h>

namespace asr {
namespace {

TEST(SkillForgetting, ThreeForms) {
  const auto f = skill_forgetting({NAN, 60, 80, 50, 70, 65});
  EXPECT_DOUBLE_EQ(f.best, 15) << "80 was the best before the last stage";
  EXPECT_DOUBLE_EQ(f.step, 5) << "70 to 65";
  EXPECT_DOUBLE_EQ(f.cumulative, 35) << "30 and 5";
}

TEST(SkillForgetting, GainsAreNoSteps) {
  const auto f = skill_forgetting({40, 50});
  EXPECT_DOUBLE_EQ(f.best, -10);
  EXPECT_DOUBLE_EQ(f.step, 0);
  EXPECT_DOUBLE_EQ(f.cumulative, 0);
}

TEST(SkillForgetting, OneStageForgetsNothing) {
  for (const auto& list : {std::vector<double>{}, std::vector<double>{NAN, 50}}) {
    const auto f = skill_forgetting(list);
    EXPECT_TRUE(std::isnan(f.best) && std::isnan(f.step));
    EXPECT_EQ(f.cumulative, 0);
  }
}

}  // namespace
}  // namespace asr
