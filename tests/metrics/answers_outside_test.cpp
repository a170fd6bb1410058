#include "metrics/answers_outside.h"

#include <cmath>

#include "tests/support/files.h"

namespace asr {
namespace {

TEST(AnswersOutside, CountWrongAnswersThatAreNoneOfTheTasks) {
  const std::set<std::string> colors = {"red", "green", "2"};
  // Right; wrong but a colour; wrong and none; a colour in other letters; a number word, half right.
  const std::vector<std::string> answers = {"red", "green", "circle", "The Red.", "two"};
  EXPECT_DOUBLE_EQ(outside_share(answers, {1, 0, 0, 0, 0.3}, colors), 25);
  EXPECT_DOUBLE_EQ(outside_share(answers, {1, 1, 0, 1, 0.6}, colors), 100);
  EXPECT_DOUBLE_EQ(outside_share(answers, {1, 0, 1, 0, 1}, colors), 0);
  EXPECT_TRUE(std::isnan(outside_share(answers, {1, 1, 1, 1, 0.5}, colors)));
  EXPECT_CONTAINS(error_of([&] { outside_share(answers, {1}, colors); }), "5 answers but 1 scores");
}

}  // namespace
}  // namespace asr
