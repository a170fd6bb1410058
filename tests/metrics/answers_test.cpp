// Metrics on short answers: exact, contains, GQA, letters and boxes.
#include "metrics/metric.h"
#include "tests/support/files.h"

namespace asr {
namespace {

double score_of(const std::string& metric, const std::string& text, const std::vector<std::string>& references) {
  return evaluate_metric(metric, {{"q", text, references}}).score;
}

TEST(Metric, UnknownNamesAndEmptyInputAreErrors) {
  EXPECT_CONTAINS(error_of([] { evaluate_metric("exakt", {{"1", "a", {"a"}}}); }), "did you mean 'exact'?");
  EXPECT_CONTAINS(error_of([] { evaluate_metric("exact", {}); }), "no sample to score");
  EXPECT_CONTAINS(error_of([] { evaluate_metric("vqa", {{"7", "a", {}}}); }), "'7' has no reference");
}

TEST(Metric, EveryMetricGivesAValuePerSample) {
  const std::string box = "[0.1, 0.2, 0.5, 0.6]";
  const std::vector<Answered> samples = {{"1", box, {box}}, {"2", "", {box}}, {"3", "a red cube \xff\xfe", {box, box}}};
  for (const auto& name : metric_names()) {
    if (name == "meteor" || name == "caption7" || name.rfind("wups", 0) == 0) continue;  // need WordNet
    const auto result = evaluate_metric(name, samples);
    ASSERT_EQ(result.per_sample.size(), 3u) << name;
    for (double value : result.per_sample) EXPECT_TRUE(value >= 0 && value <= 1) << name << " " << value;
    EXPECT_FALSE(result.components.empty()) << name;
  }
}

TEST(Exact, ForgivesCaseAndOuterSpace) {
  EXPECT_EQ(score_of("exact", " Red\n", {"red"}), 100);
  EXPECT_EQ(score_of("exact", "dark red", {"red", "DARK RED"}), 100);
  EXPECT_EQ(score_of("exact", "\xc3\x89\x54\xc3\x89", {"\xc3\xa9t\xc3\xa9"}), 100);  // accented capitals
  EXPECT_EQ(score_of("exact", "red.", {"red"}), 0);
  EXPECT_EQ(score_of("exact", "", {"red"}), 0);
  EXPECT_EQ(score_of("exact_coin", " red", {"red"}), 0);
  EXPECT_EQ(score_of("exact_ocrvqa", "Unanswerable", {"unanswerable"}), 0);
  EXPECT_EQ(score_of("exact_ocrvqa", "unanswerable", {"Unanswerable"}), 100);
}

TEST(Contains, TheQuirksHaveNames) {
  EXPECT_EQ(score_of("contains", "a tabby cat", {"tabby"}), 100);
  EXPECT_EQ(score_of("contains", "tab", {"tabby"}), 100);
  EXPECT_EQ(score_of("contains", "Tabby", {"tabby"}), 0);
  EXPECT_EQ(score_of("contains", "", {"tabby"}), 0);
  EXPECT_EQ(score_of("contains_coin", "", {"tabby"}), 100);
  EXPECT_EQ(score_of("contains_strict", "tab", {"tabby"}), 0);
  EXPECT_EQ(score_of("contains_strict", "a tabby cat", {"tabby"}), 100);
  EXPECT_EQ(evaluate_metric("contains", {{"1", "t", {"tabby"}}}).components.at("accuracy_strict"), 0);
}

TEST(Gqa, DropsFinalPeriodsOnly) {
  EXPECT_EQ(score_of("gqa", " Yes.", {"yes"}), 100);
  EXPECT_EQ(score_of("gqa", "Yes...", {"yes"}), 100);
  EXPECT_EQ(score_of("gqa", "yes, it is", {"yes"}), 0);
}

TEST(Letter, ReadsLikeTheScienceQaScript) {
  EXPECT_EQ(score_of("letter", "B", {"B"}), 100);
  EXPECT_EQ(score_of("letter", "B. a cat", {"B"}), 100);
  EXPECT_EQ(score_of("letter", "The answer is b.", {"B"}), 100);
  EXPECT_EQ(score_of("letter", "(C)", {"C. a dog"}), 100);
  EXPECT_EQ(score_of("letter", "a cat", {"A"}), 100);
  EXPECT_EQ(score_of("letter", "it's B", {"B"}), 0);  // the first single character is the s
  EXPECT_EQ(score_of("letter", "it\xe2\x80\x99s B", {"B"}), 0);
  EXPECT_EQ(score_of("letter", "F", {"F"}), 0);
  EXPECT_EQ(score_of("letter", "", {"A"}), 0);
  EXPECT_EQ(score_of("letter", "AB", {"A"}), 0);
  EXPECT_EQ(evaluate_metric("letter", {{"1", "no idea", {"A"}}}).components.at("invalid"), 1);
}

TEST(Iou50, ReadsBoxesInManyForms) {
  for (const char* text :
       {"[10,20,50,60]", " [10, 20, 50, 60].", "10 20 50 60", "(10,20),(50,60)", "[[1e1, 2e1, 5e1, 6e1]]",
        "<box>10;20;50;60</box>", "x1=10 y1=20 x2=50 y2=60", "box 1: [10.0, 20., 50, +60]"})
    EXPECT_EQ(score_of("iou50", text, {"[10,20,50,60]"}), 100) << text;
  for (const char* text : {"", "[10,20,50]", "10,20,50,60,70", "[nan,20,50,60]", "[1e999,20,50,60]", "left",
                           "[50,60,10,20]", "[10,20,10,20]"})
    EXPECT_EQ(score_of("iou50", text, {"[10,20,50,60]"}), 0) << text;
}

TEST(Iou50, MoreThanHalfIsRight) {
  EXPECT_EQ(score_of("iou50", "[0,0,1,1]", {"[0,0,1,2]"}), 0);  // exactly one half
  EXPECT_EQ(score_of("iou50", "[0,0,1,1]", {"[0,0,1,1.99]"}), 100);
  EXPECT_NEAR(evaluate_metric("iou50", {{"1", "[0,0,2,2]", {"[1,1,3,3]"}}}).components.at("mean_iou"), 1 / 7.0, 1e-12);
  EXPECT_EQ(score_of("iou50", "[0,0,1,1]", {"[5,5,6,6]", "[0,0,1,1]"}), 100);
  EXPECT_CONTAINS(error_of([] { score_of("iou50", "[0,0,1,1]", {"a box"}); }), "is no box");
}

TEST(Iou50, CoinsReaderLosesDigits) {
  const std::string box = "[0.12, 0.34, 0.56, 0.78]";
  // Read as ".12, 0.34, 0.56, 0.7": still a box, but a smaller one.
  EXPECT_NEAR(evaluate_metric("iou50_coin", {{"1", box, {box}}}).components.at("mean_iou"), 0.36 / 0.44, 1e-9);
  EXPECT_EQ(score_of("iou50_coin", "[0.1,0.2,0.3,5]", {"[0.1,0.2,0.3,5]"}), 0);  // nothing left of the last number
  EXPECT_EQ(score_of("iou50", "[0.1,0.2,0.3,5]", {"[0.1,0.2,0.3,5]"}), 100);
  EXPECT_EQ(score_of("iou50_coin", "", {box}), 0);
}

}  // namespace
}  // namespace asr
