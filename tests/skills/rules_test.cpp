#include "skills/rules.h"

#include <set>

#include "skills/labelled_questions.h"
#include "skills/question_pattern.h"
#include "skills/taxonomy.h"
#include "tests/support/files.h"

namespace asr {
namespace {

bool matches(const std::string& pattern, const std::vector<std::string>& words) {
  return QuestionPattern(pattern).matches(words);
}

TEST(QuestionPattern, WordsGapsAndEnds) {
  EXPECT_TRUE(matches("many dogs", {"how", "many", "dogs"}));
  EXPECT_FALSE(matches("^ many", {"how", "many"}));
  EXPECT_TRUE(matches("^ how * dogs|cats $", {"how", "many", "big", "cats"}));
  EXPECT_TRUE(matches("^ how * many", {"how", "many"}));
  EXPECT_FALSE(matches("^ how * cats $", {"how", "cats", "run"}));
  EXPECT_TRUE(matches("<be> * <color> $", {"is", "it", "red"}));
  EXPECT_FALSE(matches("<be> <ing>", {"is", "ring"}));  // a noun
  EXPECT_TRUE(matches("<cmp> than", {"taller", "than"}));
  EXPECT_FALSE(matches("a", {}));
  EXPECT_CONTAINS(error_of([] { QuestionPattern("<colour>"); }), "unknown class <colour>");
}

struct Case {
  const char *question, *skill;
};
class RuleTable : public testing::TestWithParam<Case> {};
TEST_P(RuleTable, Question) {
  const auto answer = apply_rules(GetParam().question);
  EXPECT_STREQ(answer.skill, GetParam().skill) << GetParam().question << " by " << answer.rule;
}
INSTANTIATE_TEST_SUITE_P(
    Rules, RuleTable,
    testing::Values(Case{"How many ducks are there?", "count"}, Case{"What color is the duck?", "color"},
                    Case{"Where is the duck?", "location"}, Case{"Are there more ducks than geese?", "compare-number"},
                    Case{"Is the duck bigger than the goose?", "compare-attribute"},
                    Case{"Is there a duck?", "existence"}, Case{"What is the duck holding?", "relation"},
                    Case{"Is the duck to the left of the goose?", "spatial"}, Case{"What does the sign say?", "read"},
                    Case{"What shape is the pond?", "attribute"}, Case{"What kind of duck is this?", "fine-grained"},
                    Case{"Give the bounding box of the duck.", "grounding"},
                    Case{"What is the duck doing?", "activity"}, Case{"What is this?", "object"},
                    Case{"Why is the duck wet?", "other"}, Case{"What's the duck doing?", "activity"},
                    Case{"Is it a duck? Answer yes or no.", "object"},
                    Case{"What is the number of ducks in the pond?", "count"}, Case{"zorgl", "other"},
                    Case{"", "other"}));

TEST(Rules, QuestionTypesDecideWhereThePatternIsWeak) {
  EXPECT_STREQ(apply_rules("how did the man sing it", "TC").skill, "activity");
  EXPECT_STREQ(apply_rules("where was it taken", "CW").skill, "location");  // a sure pattern stays
  EXPECT_STREQ(apply_rules("hm", "DC").skill, "count");
  EXPECT_STREQ(apply_rules("hm", "no such type").skill, "other");
}

TEST(Rules, VqaTypesAreTheLongestOpening) {
  EXPECT_EQ(vqa_question_type("What color is the bus?"), "what color is the");
  EXPECT_EQ(vqa_question_type("What color is it?"), "what color is");
  EXPECT_EQ(vqa_question_type("IS THERE a bus"), "is there a");
  EXPECT_EQ(vqa_question_type("Whatever?"), "none of the above");
}

TEST(Rules, PosteriorsAreDistributions) {
  for (const char* question : {"what is it?", "how many?", "", "\xff"}) {
    double sum = 0;
    for (const float p : rule_posterior(question)) sum += p;
    EXPECT_NEAR(sum, 1, 1e-5) << question;
  }
}

TEST(Templates, EverySkillIsAskedFor) {
  const auto questions = templated_questions(600, 1);
  std::set<int> skills;
  for (const auto& q : questions) {
    skills.insert(q.skill);
    EXPECT_EQ(q.text.find('{'), std::string::npos) << q.text;
  }
  EXPECT_EQ(skills.size(), skill_names().size());
  EXPECT_EQ(templated_questions(600, 1)[599].text, questions[599].text);
  EXPECT_NE(templated_questions(600, 2)[599].text, questions[599].text);
}

// The file that measures: well-formed, large enough, every skill often enough, no question twice.
TEST(HandLabelled, CoversEverySkill) {
  const auto questions = read_labelled_questions(ASR_SOURCE_DIR "/tests/fixtures/hand_labelled_questions.tsv");
  EXPECT_GE(questions.size(), 320u);
  std::vector<int> counts(skill_names().size());
  std::set<std::string> keys;
  for (const auto& q : questions) {
    ++counts[static_cast<size_t>(q.skill)];
    EXPECT_TRUE(keys.insert(question_key(q.text)).second) << q.text;
  }
  for (size_t s = 0; s < counts.size(); ++s) EXPECT_GE(counts[s], 15) << skill_names()[s];
}

}  // namespace
}  // namespace asr
