#include "metrics/score_matrix.h"

#include <cmath>

#include "tests/support/files.h"

namespace asr {
namespace {

ScoreMatrix parse(const std::string& text) {
  std::vector<std::string> warnings;
  return parse_score_csv(text, "m.csv", warnings);
}

const char* kExample =
    "stage,count,color,read\n"
    "0,10,20,30\n"
    "1,50,,\n"
    "2,40,60,\n"
    "3,45,50,70\n";

TEST(ScoreMatrix, ScoresByHand) {
  const auto s = score(parse(kExample));
  EXPECT_DOUBLE_EQ(s.ap, (45 + 50 + 70) / 3.0);
  EXPECT_DOUBLE_EQ(s.last, s.ap);
  EXPECT_DOUBLE_EQ(s.af_paper, ((50 - 45) + (60 - 50)) / 2.0);
  EXPECT_DOUBLE_EQ(s.af_vqacl, ((50 - 45) + (60 - 50)) / 2.0);
  EXPECT_DOUBLE_EQ(s.avg, (50 + 50 + 55) / 3.0);
  EXPECT_DOUBLE_EQ(s.bwt, ((45 - 50) + (50 - 60)) / 2.0);
  EXPECT_DOUBLE_EQ(s.mft, (50 + 60 + 70) / 3.0);
  EXPECT_DOUBLE_EQ(s.interference[1][0], -10);
  EXPECT_DOUBLE_EQ(s.interference[2][1], -10);
  EXPECT_DOUBLE_EQ(s.interference[0][0], 0);
  EXPECT_TRUE(std::isnan(s.interference[0][1]));
  EXPECT_EQ(s.plasticity, (std::vector<double>{50, 60, 70}));
  EXPECT_EQ(s.stability, (std::vector<double>{50, 50, 55}));
}

TEST(ScoreMatrix, TheTwoFormsOfForgettingDiffer) {
  // The last row is the best: the paper's form cannot be negative, VQACL's is.
  const auto s = score(parse("stage,a,b\n1,50,\n2,60,70\n"));
  EXPECT_DOUBLE_EQ(s.af_paper, 0);
  EXPECT_DOUBLE_EQ(s.af_vqacl, -10);
}

TEST(ScoreMatrix, OneStageHasNoForgetting) {
  const auto s = score(parse("stage,a\n0,5\n1,50\n"));
  EXPECT_DOUBLE_EQ(s.ap, 50);
  EXPECT_TRUE(std::isnan(s.af_paper));
  EXPECT_TRUE(std::isnan(s.bwt));
}

TEST(ScoreMatrix, ARunCutShortCountsWhatItReached) {
  const auto matrix = parse("stage,a,b,c\n0,1,2,3\n1,50,,\n2,40,60,\n");
  EXPECT_EQ(matrix.stages(), 2);
  EXPECT_DOUBLE_EQ(score(matrix).ap, 50);
}

TEST(ScoreMatrix, ReadsWindowsFilesAndQuotedNames) {
  const auto matrix = parse("\xef\xbb\xbfstage,\"a, b\",\"c \"\"d\"\"\"\r\n1,1.5,\r\n2,2,3\r\n\r\n");
  EXPECT_EQ(matrix.tasks, (std::vector<std::string>{"a, b", "c \"d\""}));
  EXPECT_DOUBLE_EQ(matrix.rows[0][0], 1.5);
}

TEST(ScoreMatrix, ScoresOfUnseenTasksAreIgnoredAloud) {
  std::vector<std::string> warnings;
  const auto matrix = parse_score_csv("stage,a,b\n1,50,33\n2,40,60\n", "m.csv", warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_CONTAINS(warnings[0], "m.csv:2");
  EXPECT_TRUE(std::isnan(matrix.rows[0][1]));
}

TEST(ScoreMatrix, BadFilesNameTheLine) {
  const auto message = [](const std::string& text) { return error_of([&] { parse(text); }); };
  EXPECT_CONTAINS(message(""), "is empty");
  EXPECT_CONTAINS(message("stage\n"), "at least one task");
  EXPECT_CONTAINS(message("stage,a,a\n1,1,1\n"), "stands twice");
  EXPECT_CONTAINS(message("stage,a,\n1,1,1\n"), "is empty");
  EXPECT_CONTAINS(message("stage,a\n0,1\n"), "no row for stage 1");
  EXPECT_CONTAINS(message("stage,a,b\n1,1\n"), "m.csv:2: has 1 scores");
  EXPECT_CONTAINS(message("stage,a\n1,x\n"), "not a number");
  EXPECT_CONTAINS(message("stage,a\n1,-1\n"), "is below 0");
  EXPECT_CONTAINS(message("stage,a\n1,nan\n"), "not a number");
  EXPECT_CONTAINS(message("stage,a,b\n1,1,\n3,1,1\n"), "out of order");
  EXPECT_CONTAINS(message("stage,a,b\n1,1,\n2,,1\n"), "is missing after stage 2");
  EXPECT_CONTAINS(message("stage,a\n1,1\n2,1\n"), "more stages than tasks");
  EXPECT_CONTAINS(message("stage,\"a\n1,1\n"), "does not end");
  EXPECT_CONTAINS(message("stage,a\nfirst,1\n"), "not a stage number");
  EXPECT_CONTAINS(message("stage,\"a\"b\n1,1\n"), "after the closing quote");
  EXPECT_CONTAINS(message("stage,a\n1,0x10\n"), "not a number");
}

}  // namespace
}  // namespace asr
