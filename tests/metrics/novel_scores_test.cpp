// Scores on novel compositions: a matrix in which some tasks have no such questions.
#include <cmath>

#include "metrics/named_scores.h"
#include "tests/support/files.h"

namespace asr {
namespace {

ScoreMatrix parse_novel(const std::string& text) {
  std::vector<std::string> warnings;
  return parse_score_csv(text, "n.csv", warnings);
}

// As a run on VQACL writes it: no row 0, and the first task, which trains on all groups, has no novel questions.
const char* kVqacl =
    "stage,q_recognition,q_location,q_judge,q_action\n"
    "1,,,,\n"
    "2,,60,,\n"
    "3,,50,80,\n"
    "4,,40,82,30\n";

TEST(NovelScores, BeginAtTheSecondTaskOfVqacl) {
  const auto matrix = parse_novel(kVqacl);
  EXPECT_EQ(matrix.tasks_left_out(), (std::vector<std::string>{"q_recognition"}));
  const auto s = score(matrix);
  EXPECT_DOUBLE_EQ(s.ap, (40 + 82 + 30) / 3.0);
  EXPECT_DOUBLE_EQ(s.af_paper, ((60 - 40) + (82 - 82)) / 2.0);
  EXPECT_DOUBLE_EQ(s.af_vqacl, ((60 - 40) + (80 - 82)) / 2.0);
  EXPECT_DOUBLE_EQ(s.avg, (60 + (50 + 80) / 2.0 + (40 + 82 + 30) / 3.0) / 3);
  EXPECT_DOUBLE_EQ(s.mft, (60 + 80 + 30) / 3.0);
  EXPECT_DOUBLE_EQ(s.bwt, ((40 - 60) + (82 - 80)) / 2.0);
  EXPECT_TRUE(std::isnan(s.stability[0]));
  EXPECT_TRUE(std::isnan(s.interference[3][0]));
  const auto named = novel_scores(matrix);
  EXPECT_DOUBLE_EQ(named.at("AP_novel"), s.ap);
  EXPECT_DOUBLE_EQ(named.at("AF_novel"), 10);
  EXPECT_DOUBLE_EQ(named.at("AF_novel_vqacl"), 9);
}

// The same figures as the matrix of the tasks that have questions alone.
TEST(NovelScores, AreThoseOfTheMatrixWithoutTheOtherTasks) {
  const auto whole = score(parse_novel(kVqacl));
  const auto part = score(parse_novel("stage,a,b,c\n1,60,,\n2,50,80,\n3,40,82,30\n"));
  EXPECT_DOUBLE_EQ(whole.ap, part.ap);
  EXPECT_DOUBLE_EQ(whole.af_paper, part.af_paper);
  EXPECT_DOUBLE_EQ(whole.af_vqacl, part.af_vqacl);
  EXPECT_DOUBLE_EQ(whole.avg, part.avg);
  EXPECT_DOUBLE_EQ(whole.bwt, part.bwt);
  EXPECT_DOUBLE_EQ(whole.mft, part.mft);
}

TEST(NovelScores, AfterTheFirstStageThereMayBeNone) {
  const auto s = score(parse_novel("stage,a,b\n1,,\n"));
  EXPECT_TRUE(std::isnan(s.ap));
  EXPECT_TRUE(std::isnan(s.af_paper));
  EXPECT_TRUE(std::isnan(s.avg));
}

TEST(NovelScores, AHoleInATaskThatHasScoresIsStillAnError) {
  EXPECT_CONTAINS(error_of([] { parse_novel("stage,a,b,c\n1,,,\n2,,5,\n3,,,5\n"); }),
                  "n.csv:4: score of task 'b' is missing after stage 3");
  EXPECT_CONTAINS(error_of([] { parse_novel("stage,a,b\n0,1,2\n1,,\n2,,3\n"); }), "task 'a' is missing after stage 1");
}

TEST(NamedScores, OfAJointRunHaveNoForgetting) {
  ScoreMatrix joint;
  joint.tasks = {"a", "b"};
  joint.zero_shot = {10, 20};
  joint.rows = {{50, 130}};
  const auto scores = named_scores(joint, true);
  EXPECT_DOUBLE_EQ(scores.at("AP"), 90);
  EXPECT_DOUBLE_EQ(scores.at("zero_shot"), 15);
  EXPECT_TRUE(std::isnan(scores.at("AF")));
}

TEST(ScoreMatrix, CaptionScoresMayExceedAHundred) {
  const auto matrix = parse_novel("stage,a,b\n0,1,212.5\n1,99,\n2,98,312.5\n");
  EXPECT_DOUBLE_EQ(score(matrix).ap, (98 + 312.5) / 2);
}

TEST(ScoreMatrix, NamesThatNoTaskCanHave) {
  const auto message = [](const std::string& text) { return error_of([&] { parse_novel(text); }); };
  EXPECT_CONTAINS(message("stage,\"a\nb\"\n1,1\n"),
                  "n.csv:1: the name of task 1, 'a\\x0ab', holds a control character");
  EXPECT_CONTAINS(message("stage,a\x1b[31m\n1,1\n"), "control character");
  EXPECT_CONTAINS(message("stage,\xff\n1,1\n"), "is not UTF-8");
  EXPECT_CONTAINS(message("stage,\"a, b\",\"a, b\"\n1,1,\n"), "task 'a, b' stands twice");
  EXPECT_EQ(parse_novel("stage,\" a\",a\n1,1,\n2,1,1\n").tasks, (std::vector<std::string>{" a", "a"}));
}

}  // namespace
}  // namespace asr
