// WUPS, METEOR and what they stand on. All but the stemmer needs WordNet's files.
#include <fstream>

#include "metrics/answer_files.h"
#include "metrics/lemmas.h"
#include "metrics/meteor_align.h"
#include "metrics/porter.h"
#include "metrics/wu_palmer.h"
#include "tests/support/files.h"
#include "tests/support/gzip.h"

namespace asr {
namespace {

bool has_wordnet() {
  return std::getenv("ASR_WORDNET") || std::filesystem::exists("/usr/share/wordnet/data.noun");
}
#define NEEDS_WORDNET() \
  if (!has_wordnet()) GTEST_SKIP() << "WordNet is not installed (package wordnet-base) and ASR_WORDNET is not set"

// The examples of Porter's paper, rule by rule.
TEST(Porter, TheExamplesOfThePaper) {
  const char* const examples[][2] = {{"caresses", "caress"},
                                     {"ponies", "poni"},
                                     {"ties", "ti"},
                                     {"caress", "caress"},
                                     {"cats", "cat"},
                                     {"feed", "feed"},
                                     {"agreed", "agre"},
                                     {"plastered", "plaster"},
                                     {"bled", "bled"},
                                     {"motoring", "motor"},
                                     {"sing", "sing"},
                                     {"conflated", "conflat"},
                                     {"troubled", "troubl"},
                                     {"sized", "size"},
                                     {"hopping", "hop"},
                                     {"tanned", "tan"},
                                     {"falling", "fall"},
                                     {"hissing", "hiss"},
                                     {"fizzed", "fizz"},
                                     {"failing", "fail"},
                                     {"filing", "file"},
                                     {"happy", "happi"},
                                     {"sky", "sky"},
                                     {"relational", "relat"},
                                     {"conditional", "condit"},
                                     {"rational", "ration"},
                                     {"valenci", "valenc"},
                                     {"digitizer", "digit"},
                                     {"conformabli", "conform"},
                                     {"radicalli", "radic"},
                                     {"differentli", "differ"},
                                     {"vileli", "vile"},
                                     {"analogousli", "analog"},
                                     {"vietnamization", "vietnam"},
                                     {"predication", "predic"},
                                     {"operator", "oper"},
                                     {"feudalism", "feudal"},
                                     {"decisiveness", "decis"},
                                     {"hopefulness", "hope"},
                                     {"callousness", "callous"},
                                     {"formaliti", "formal"},
                                     {"sensitiviti", "sensit"},
                                     {"sensibiliti", "sensibl"},
                                     {"triplicate", "triplic"},
                                     {"formative", "form"},
                                     {"formalize", "formal"},
                                     {"electriciti", "electr"},
                                     {"electrical", "electr"},
                                     {"hopeful", "hope"},
                                     {"goodness", "good"},
                                     {"revival", "reviv"},
                                     {"allowance", "allow"},
                                     {"inference", "infer"},
                                     {"airliner", "airlin"},
                                     {"gyroscopic", "gyroscop"},
                                     {"adjustable", "adjust"},
                                     {"defensible", "defens"},
                                     {"irritant", "irrit"},
                                     {"replacement", "replac"},
                                     {"adjustment", "adjust"},
                                     {"dependent", "depend"},
                                     {"adoption", "adopt"},
                                     {"homologou", "homolog"},
                                     {"communism", "commun"},
                                     {"activate", "activ"},
                                     {"angulariti", "angular"},
                                     {"homologous", "homolog"},
                                     {"effective", "effect"},
                                     {"bowdlerize", "bowdler"},
                                     {"probate", "probat"},
                                     {"rate", "rate"},
                                     {"cease", "ceas"},
                                     {"controll", "control"},
                                     {"roll", "roll"},
                                     {"a", "a"},
                                     {"t-shirts", "t-shirts"}};
  for (const auto& [word, stem] : examples) EXPECT_EQ(porter_stem(word), stem) << word;
  EXPECT_EQ(porter_stem(std::string(50, 'y')).size(), 50u);
}

TEST(WuPalmer, KnownSimilarities) {
  NEEDS_WORDNET();
  const WordNet net;
  WuPalmer similarity(net);
  EXPECT_NEAR(similarity.of_words("dog", "cat"), 24.0 / 28, 1e-12);  // dog.n.01 and cat.n.01 meet in carnivore
  EXPECT_EQ(similarity.of_words("dog", "dog"), 1);
  EXPECT_EQ(similarity.of_words("dog", "qwertyuiop"), 0);
  EXPECT_EQ(similarity.of_words("qwertyuiop", "qwertyuiop"), 1);
  EXPECT_EQ(similarity.of_words("happy", "dog"), 0);         // an adjective has no way up
  EXPECT_GT(similarity.of_words("bring", "dog"), 0);         // a verb reaches the root of everything
  EXPECT_EQ(similarity.of_words("dog", "bring"), 0);         // a noun does not
  EXPECT_GT(similarity.of_words("restrain", "inhibit"), 0);  // WordNet's one cycle
}

TEST(Lemmas, ByEndingAndException) {
  NEEDS_WORDNET();
  const WordNet net;
  Lemmatizer lemmas(net);
  EXPECT_EQ(lemmas.lemma("dogs"), "dog");
  EXPECT_EQ(lemmas.lemma("wants"), "want");
  EXPECT_EQ(lemmas.lemma("sitting"), "sit");
  EXPECT_EQ(lemmas.lemma("took"), "take");
  EXPECT_EQ(lemmas.lemma("children"), "child");
  EXPECT_EQ(lemmas.lemma("was"), "be");
  EXPECT_EQ(lemmas.lemma("happy"), "happy");
  EXPECT_EQ(lemmas.lemma("qwertyuiop"), "qwertyuiop");
}

double wups(const std::string& text, const std::string& truth, const std::string& type = "") {
  return evaluate_metric("wups", {{"1", text, {truth}, type}}).score;
}

TEST(Wups, ByHand) {
  NEEDS_WORDNET();
  EXPECT_NEAR(wups("the dogs", "a cat"), 100 * 24.0 / 28, 1e-9);
  EXPECT_NEAR(evaluate_metric("wups", {{"1", "dog", {"cat"}}}).components.at("wups_9"), 0.1 * 24 / 28, 1e-12);
  EXPECT_EQ(wups("sitting", "to sit"), 100);
  EXPECT_EQ(wups("two", "two", "DC"), 100);
  EXPECT_EQ(wups("two", "three", "DC"), 0);
  EXPECT_GT(wups("two", "three", "CW"), 0);
  EXPECT_EQ(wups("", "dog"), 0);
  EXPECT_EQ(wups("the", "the"), 0);  // nothing but a stop word
  EXPECT_EQ(evaluate_metric("wups", {{"1", "cat", {"moon", "cats"}}}).score, 100);
  const auto vqacl = evaluate_metric("wups_vqacl", {{"1", "two", {"three", "two"}, "DC"}});
  EXPECT_GT(vqacl.score, 0);
  EXPECT_LT(vqacl.score, 100);
  std::string huge;
  for (int i = 0; i < 30000; ++i) huge += "word" + std::to_string(i) + " ";
  EXPECT_EQ(wups(huge, huge), 100);
}

TEST(Wups, AgreesWithPublishedScoresOfNextQa) {
  NEEDS_WORDNET();
  const std::string folder = shared_data() + "/data/nextqa_oe";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data at " << folder << "; set ASR_TEST_DATA";
  TemporaryFolder files;
  write_text(files / "val.csv", gunzipped(folder + "/val.csv.gz"));
  write_text(files / "said.json", gunzipped(folder + "/HGA_val_predictions.json.gz"));
  const auto result = evaluate_metric("wups", load_answered(files / "said.json", files / "val.csv"));
  EXPECT_EQ(result.per_sample.size(), 5343u);
  EXPECT_NEAR(100 * result.components.at("wups_0_C"), 14.76, 0.3);
  EXPECT_NEAR(100 * result.components.at("wups_0_T"), 14.90, 0.3);
  EXPECT_NEAR(100 * result.components.at("wups_0_D"), 46.60, 0.3);
  EXPECT_NEAR(result.score, 21.48, 0.3);
}

// Every stop word is dropped, so an answer of stop words alone never scores.
TEST(Wups, KnowsTheStopWordsOfNextQa) {
  NEEDS_WORDNET();
  const std::string path = shared_data() + "/data/nextqa_oe/stopwords.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no reference data at " << path << "; set ASR_TEST_DATA";
  std::ifstream in(path);
  std::vector<Answered> samples;
  for (std::string word; std::getline(in, word);) samples.push_back({word, word, {word}});
  const auto result = evaluate_metric("wups_vqacl", samples);
  for (size_t i = 0; i < samples.size(); ++i) {
    const bool contraction = samples[i].text.find('\'') != std::string::npos;  // these fall in two when tokenised
    EXPECT_TRUE(contraction || result.per_sample[i] == 0) << samples[i].text;
  }
}

TEST(MeteorAlign, MostMatchesThenFewestChunks) {
  const auto best = align({{0, 3}, {1}, {2}, {}, {0, 3}}, 4);
  EXPECT_EQ(best.partner, (std::vector<int>{0, 1, 2, -1, 3}));
  EXPECT_EQ(best.matches, 4);
  EXPECT_EQ(best.chunks, 2);
  EXPECT_EQ(align({}, 3).matches, 0);
  EXPECT_EQ(align({{}, {}}, 0).partner, (std::vector<int>{-1, -1}));
}

double meteor(const std::string& text, const std::vector<std::string>& references) {
  return evaluate_metric("meteor", {{"1", text, references}}).components.at("meteor");
}

TEST(Meteor, FormulaByHand) {
  NEEDS_WORDNET();
  // Four matches in two chunks; "this is a" are function words. The value is also the Java program's, published.
  EXPECT_NEAR(meteor("this is a good test", {"this is a test", "this is also a test"}), 0.44434387, 1e-6);
  EXPECT_NEAR(meteor("a red cube", {"a red cube"}), 1, 1e-12);
  EXPECT_EQ(meteor("cube", {"ball"}), 0);
  EXPECT_EQ(meteor("", {"ball"}), 0);
  EXPECT_EQ(meteor("ball", {""}), 0);
  EXPECT_NEAR(meteor("dogs", {"dog"}), 0.6, 1e-12);        // by stem; one word is one chunk, all of it
  EXPECT_NEAR(meteor("automobile", {"car"}), 0.8, 1e-12);  // by synonym
  const auto both = evaluate_metric("meteor", {{"1", "a red cube", {"a red cube"}}, {"2", "two rings", {"two rings"}}});
  EXPECT_NEAR(both.score, 100, 1e-9);
}

TEST(Meteor, HugeTextsStayCheap) {
  NEEDS_WORDNET();
  std::string same;
  for (int i = 0; i < 50000; ++i) same += "x ";
  EXPECT_NEAR(meteor(same, {same}), 1, 1e-12);
}

TEST(Caption7, IsTheMeanOfSeven) {
  NEEDS_WORDNET();
  const std::vector<Answered> samples = {
      {"1", "a red cube at the left", {"a red cube at the left", "there is a red cube"}},
      {"2", "two green rings", {"a green ring", "two rings"}}};
  const auto result = evaluate_metric("caption7", samples);
  ASSERT_EQ(result.components.size(), 7u);
  double sum = 0;
  for (const auto& [name, value] : result.components) sum += value;
  EXPECT_NEAR(result.score, 100 * sum / 7, 1e-9);
  for (const char* name : {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider"})
    EXPECT_TRUE(result.components.count(name)) << name;
  for (double value : result.per_sample) EXPECT_TRUE(value >= 0 && value <= 1) << value;
}

}  // namespace
}  // namespace asr
