// VQA accuracy: the normalisation case by case, the annotator formula, and real annotations where present.
#include <algorithm>
#include <map>

#include "metrics/answer_files.h"
#include "metrics/vqa_answer.h"
#include "tests/support/files.h"
#include "tests/support/gzip.h"

namespace asr {
namespace {

struct Case {
  const char *text, *expected;
};

// Each row was worked out by hand from the rules in docs/metrics.md.
const Case kCases[] = {
    // Plain words, case and space.
    {"red", "red"},
    {"Red", "red"},
    {"  red  ", "red"},
    {"dark\nred", "dark red"},
    {"dark\tred", "dark red"},
    {"dark   red", "dark red"},
    {"", ""},
    {" \n ", ""},
    // Articles, everywhere in the text.
    {"a dog", "dog"},
    {"An apple", "apple"},
    {"the the dog", "dog"},
    {"on the table", "on table"},
    {"the", ""},
    {"another", "another"},
    // Number words up to ten; none is zero.
    {"none", "0"},
    {"Zero", "0"},
    {"two dogs", "2 dogs"},
    {"ten", "10"},
    {"eleven", "eleven"},
    {"twenty one", "twenty 1"},
    // A mark without a space beside it becomes a space, one beside a space goes.
    {"black/white", "black white"},
    {"black / white", "black white"},
    {"black/ white", "black white"},
    {"t-shirt", "t shirt"},
    {"t-shirt - red", "tshirt red"},
    {"yes!", "yes"},
    {"yes, sir", "yes sir"},
    {"yes,sir", "yes sir"},
    {"what?", "what"},
    {"(left)", "left"},
    {"left (of it)", "left of it"},
    {"x_y", "x y"},
    {"\"stop\"", "stop"},
    {"me@home", "me home"},
    // A comma between digits makes every mark go, also those without a space.
    {"1,000", "1000"},
    {"1,000-2,000", "10002000"},
    {"1, 000", "1 000"},
    // Colons and apostrophes stay; periods go unless a digit follows.
    {"12:30", "12:30"},
    {"man's", "man's"},
    {"3.5", "3.5"},
    {"3.", "3"},
    {".5", ".5"},
    {"p.m.", "pm"},
    {"10 p.m", "10 pm"},
    {"mr. smith", "mr smith"},
    {"1.a", "1a"},
    {"...", ""},
    // The reference limits the removal of periods to the first 32.
    {"........................................", "........"},
    // Contractions that lack one apostrophe.
    {"dont", "don't"},
    {"don't", "don't"},
    {"Im", "im"},  // its key has a capital, but the text is in lower case by then
    {"oclock", "o'clock"},
    {"3 oclock", "3 o'clock"},
    {"couldntve", "couldntve"},  // lacks two
    {"couldnt've", "couldn't've"},
    {"couldn'tve", "couldn't've"},
    {"twas", "'twas"},
    {"yall'd've", "y'all'd've"},
    {"somebody'd", "somebodyd"},  // the wrong way round, as in the reference
    {"somebodyd", "somebodyd"},
    {"lets", "lets"},
    {"shes", "shes"},
    {"wont the", "won't"},
    {"none of the above", "0 of above"},
};

TEST(Vqa, NormalisationCaseByCase) {
  EXPECT_GE(std::size(kCases), 40u);
  for (const auto& [text, expected] : kCases) EXPECT_EQ(normalized_answer(text), expected) << "'" << text << "'";
}

Answered annotated(const std::string& text, const std::vector<std::pair<std::string, int>>& answers) {
  Answered out{"q", text, {}};
  for (const auto& [answer, count] : answers) out.references.insert(out.references.end(), count, answer);
  return out;
}

double vqa(const Answered& sample, const std::string& metric = "vqa") {
  return evaluate_metric(metric, {sample}).per_sample[0];
}

TEST(Vqa, ClosedFormByNumberOfMatches) {
  const double expected[] = {0, 0.3, 0.6, 0.9, 1, 1, 1, 1, 1, 1, 1};
  for (int k = 0; k <= 10; ++k)
    EXPECT_NEAR(vqa(annotated("red", {{"red", k}, {"blue", 10 - k}})), expected[k], 1e-12) << k;
}

TEST(Vqa, FewerAnswersFollowTheSameFormula) {
  EXPECT_DOUBLE_EQ(vqa(annotated("red", {{"red", 1}})), 1);  // alone: exact match after normalisation
  EXPECT_DOUBLE_EQ(vqa(annotated("the Red", {{"red.", 1}})), 1);
  EXPECT_DOUBLE_EQ(vqa(annotated("blue", {{"red", 1}})), 0);
  EXPECT_DOUBLE_EQ(vqa(annotated("red", {{"red", 1}, {"blue", 1}})), 1 / 6.0);
  EXPECT_DOUBLE_EQ(vqa(annotated("red", {{"red", 4}, {"blue", 1}})), 1);
}

TEST(Vqa, NormalisesOnlyWhereAnnotatorsDisagree) {
  EXPECT_EQ(vqa(annotated("two", {{"2", 10}})), 0);
  EXPECT_EQ(vqa(annotated("two", {{"2", 9}, {"3", 1}})), 1);
  EXPECT_EQ(vqa(annotated(" 2\n", {{"2", 10}})), 1);
  EXPECT_EQ(vqa(annotated("the dog", {{"The Dog!", 9}, {"cat", 1}})), 1);
}

TEST(Vqa, VqaclsVariantMissesNumberWordsAndArticles) {
  EXPECT_EQ(vqa(annotated("two", {{"2", 10}}), "vqa_vqacl"), 1);
  EXPECT_EQ(vqa(annotated("two", {{"two", 10}}), "vqa_vqacl"), 0);
  EXPECT_EQ(vqa(annotated("the dog", {{"the dog", 9}, {"cat", 1}}), "vqa_vqacl"), 0);
  EXPECT_EQ(vqa(annotated("dog", {{"dog!", 9}, {"cat", 1}}), "vqa_vqacl"), 0);  // "dog " keeps its space
  EXPECT_EQ(vqa(annotated("dog", {{"dog.", 9}, {"cat", 1}}), "vqa_vqacl"), 1);
}

TEST(TextVqa, ProcessesEveryText) {
  EXPECT_EQ(vqa(annotated("two", {{"2", 10}}), "textvqa"), 1);
  EXPECT_EQ(vqa(annotated("levi's", {{"levi 's", 10}}), "textvqa"), 1);
  EXPECT_EQ(vqa(annotated("1,000-2", {{"1000 2", 10}}), "textvqa"), 1);  // the commas went before anything else
  EXPECT_NEAR(vqa(annotated("Pepsi", {{"pepsi", 2}, {"coke", 8}}), "textvqa"), 0.6, 1e-12);
}

// Real annotations: whoever answers as all annotators did is right, and the most frequent answer is nearly always.
TEST(Vqa, RealAnnotations) {
  const std::string path = shared_data() + "/data/vqav2_subset/vqa_annotatons_train.json.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no reference data at " << path << "; set ASR_TEST_DATA";
  TemporaryFolder files;
  write_text(files / "truth.json", gunzipped(path));
  std::string said;
  size_t place = 0;
  const std::string text = read_text(files / "truth.json"), field = "\"question_id\": ";
  while ((place = text.find(field, place)) != std::string::npos) {
    place += field.size();
    said += "{\"question_id\": " + text.substr(place, text.find_first_of(",}", place) - place) + ", \"text\": \"\"}\n";
  }
  write_text(files / "said.jsonl", said);
  auto samples = load_answered(files / "said.jsonl", files / "truth.json");
  EXPECT_EQ(samples.size(), 48061u);
  std::vector<Answered> consensus;
  for (auto& sample : samples) {
    EXPECT_EQ(sample.references.size(), 10u);
    std::map<std::string, int> counts;
    for (const auto& answer : sample.references) ++counts[answer];
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    sample.text = most->first;
    if (most->second >= 4) consensus.push_back(sample);
  }
  EXPECT_GT(consensus.size(), 30000u);
  EXPECT_EQ(evaluate_metric("vqa", consensus).score, 100);
  EXPECT_EQ(evaluate_metric("vqa", samples).per_sample.size(), samples.size());
  EXPECT_GT(evaluate_metric("vqa", samples).score, 85);
  EXPECT_LT(evaluate_metric("vqa_vqacl", consensus).score, 100);  // "two" and the like are lost there
}

}  // namespace
}  // namespace asr
