// Caption metrics against published values (where the reference data lies beside the checkout) and by hand.
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "metrics/caption_metrics.h"
#include "metrics/metric.h"
#include "tests/support/files.h"

namespace asr {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string text_of(const std::vector<std::string>& tokens) {
  std::string out;
  for (const auto& token : tokens) out += (out.empty() ? "" : "|") + token;
  return out;
}

TEST(CaptionTokens, LikeTheTreebankWithoutPunctuation) {
  const auto tokens = [](const std::string& text) { return text_of(caption_tokens(text)); };
  EXPECT_EQ(tokens("A man, riding a horse."), "a|man|riding|a|horse");
  EXPECT_EQ(tokens("The man's dog doesn't bark; it can't!"), "the|man|'s|dog|does|n't|bark|it|ca|n't");
  EXPECT_EQ(tokens("They\xe2\x80\x99re here \xe2\x80\x94 now"), "they|'re|here|now");
  EXPECT_EQ(tokens("a t-shirt and/or 3,000 at 10:30, 2.5 cm"), "a|t-shirt|and/or|3,000|at|10:30|2.5|cm");
  EXPECT_EQ(tokens("the girls' \"team\" ..."), "the|girls|team");
  EXPECT_EQ(tokens("cannot (really)"), "can|not|-lrb-|really|-rrb-");
  EXPECT_EQ(tokens("Mr. Smith in the U.S. today."), "mr.|smith|in|the|u.s.|today");
  EXPECT_EQ(tokens("$5 & 10%"), "$|5|&|10|%");
  EXPECT_EQ(tokens("Caf\xc3\xa9 \xc3\x89TE"), "caf\xc3\xa9|\xc3\xa9te");
  EXPECT_EQ(tokens("what?! no!"), "what|?!|no");
  EXPECT_EQ(tokens(" .,;:- "), "");
}

std::vector<Answered> published_samples(const std::string& folder) {
  const auto said = lines_of(folder + "/hyp.txt"), first = lines_of(folder + "/ref1.txt"),
             second = lines_of(folder + "/ref2.txt");
  std::vector<Answered> out;
  for (size_t i = 0; i < said.size(); ++i) out.push_back({std::to_string(i), said[i], {first[i], second[i]}});
  return out;
}

void expect_published(const nlohmann::json& expected, const std::vector<Answered>& samples) {
  for (int n = 1; n <= 4; ++n)
    EXPECT_NEAR(evaluate_metric("bleu", samples).components.at("bleu_" + std::to_string(n)),
                expected.at("Bleu_" + std::to_string(n)).get<double>(), 1e-5);
  EXPECT_NEAR(evaluate_metric("rouge_l", samples).components.at("rouge_l"), expected.at("ROUGE_L").get<double>(), 1e-5);
  EXPECT_NEAR(evaluate_metric("cider", samples).components.at("cider"), expected.at("CIDEr").get<double>(), 1e-5);
}

TEST(Captions, AgreeWithPublishedValues) {
  const std::string folder = shared_data() + "/data/metrics";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data at " << folder << "; set ASR_TEST_DATA";
  const auto expected = nlohmann::json::parse(read_text(folder + "/nlg_eval_expected.json"));
  expect_published(expected, published_samples(folder));
  const auto& single = expected.at("single");
  expect_published(single, {{"1", single.at("hyp"), single.at("refs")}});
}

TEST(Captions, EmptyTextsScoreNothing) {
  const std::vector<Answered> samples = {{"1", "", {"a dog"}}, {"2", "a cat", {""}}, {"3", "...", {"!"}}};
  for (const char* name : {"bleu", "rouge_l", "cider"})
    EXPECT_NEAR(evaluate_metric(name, samples).score, 0, 1e-6) << name;
}

TEST(Captions, ThePerfectCaptionScoresFull) {
  const std::vector<Answered> samples = {{"1", "a red cube on a blue ball", {"a red cube on a blue ball"}},
                                         {"2", "two green rings near the door", {"two green rings near the door"}}};
  EXPECT_NEAR(evaluate_metric("bleu", samples).score, 100, 1e-4);
  EXPECT_NEAR(evaluate_metric("rouge_l", samples).score, 100, 1e-9);
  EXPECT_NEAR(evaluate_metric("cider", samples).score, 1000, 1e-9);  // ten times a similarity of one
  EXPECT_EQ(evaluate_metric("cider", samples).per_sample[0], 1);
}

size_t plain_lcs(const WordIds& a, const WordIds& b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j)
      table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1 : std::max(table[i - 1][j], table[i][j - 1]);
  return table[a.size()][b.size()];
}

TEST(RougeL, TheFastSubsequenceEqualsThePlainOne) {
  for (uint64_t round = 0; round < 300; ++round) {
    Random random({7, round});
    WordIds a(random.below(200)), b(random.below(200));
    const uint32_t vocabulary = 1 + random.below(30);
    for (auto& word : a) word = 1 + random.below(vocabulary);
    for (auto& word : b) word = 1 + random.below(vocabulary);
    ASSERT_EQ(longest_common_subsequence(a, b), plain_lcs(a, b)) << round;
  }
}

TEST(Captions, HugeTextsStayCheap) {
  std::string same, mixed;
  for (int i = 0; i < 50000; ++i) {
    same += "x ";
    mixed += "w" + std::to_string(i % 997) + " ";
  }
  const std::vector<Answered> samples = {
      {"1", same, {same, mixed}}, {"2", mixed, {mixed, same}}, {"3", std::string(100000, 'y'), {same}}};
  for (const char* name : {"bleu", "rouge_l", "cider", "vqa", "textvqa", "letter", "exact"})
    EXPECT_GE(evaluate_metric(name, samples).score, 0) << name;
}

}  // namespace
}  // namespace asr
