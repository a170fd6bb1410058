#include "data/sample_batch.h"

#include "tests/support/files.h"

namespace asr {
namespace {

SampleBatch small_batch(int64_t rows, int64_t tokens, const std::string& id) {
  SampleBatch out;
  out.input.pixels = torch::zeros({rows, 3, 2, 2});
  out.input.ids = torch::full({rows, tokens}, 5, at::kLong);
  out.input.mask = torch::ones({rows, tokens}, at::kBool);
  out.input.labels = out.input.ids.clone();
  out.input.question = out.input.mask.clone();
  for (int64_t i = 0; i < rows; ++i) out.info.push_back({id + std::to_string(i), "what?", "x", "", {"x"}});
  out.posterior = torch::full({rows, 4}, static_cast<double>(rows));
  return out;
}

TEST(SampleBatch, JoinsRowsWithTheirInfo) {
  auto a = small_batch(2, 3, "a"), b = small_batch(1, 5, "b");
  a.reference_image = torch::zeros({2, 4});
  b.info[0].stage = 2;
  a.augmentation = 9;
  const auto both = join(a, b);
  EXPECT_EQ(both.size(), 3);
  EXPECT_EQ(both.input.ids.size(1), 5);
  EXPECT_EQ(both.input.labels[0][4].item<int64_t>(), -1) << "padding is no answer";
  EXPECT_FALSE(both.input.mask[1][3].item<bool>());
  ASSERT_EQ(both.info.size(), 3u);
  EXPECT_EQ(both.info[1].id, "a1");
  EXPECT_EQ(both.info[2].id, "b0");
  EXPECT_EQ(both.info[2].stage, 2);
  EXPECT_EQ(both.posterior.sum().item<double>(), 4 * 2 * 2 + 4);
  EXPECT_FALSE(both.reference_image.defined()) << "only one of them has it";
  EXPECT_EQ(both.augmentation, std::optional<uint64_t>(9));
}

TEST(SampleBatch, PixelsAndFeaturesDoNotMix) {
  auto a = small_batch(1, 3, "a"), b = small_batch(1, 3, "b");
  b.input.features = b.input.pixels;
  EXPECT_CONTAINS(error_of([&] { join(a, b); }), "cannot be joined");
}

TEST(AnswerScores, FollowTheVqaRule) {
  const SampleInfo one{"1", "what?", "red", "", {"red"}};
  EXPECT_EQ(answer_scores(one), (std::vector<std::pair<std::string, double>>{{"red", 1}}));
  const SampleInfo ten{"1", "what?", "red", "", {"red", "blue", "red", "red", "red", "blue", "pink"}};
  const auto scores = answer_scores(ten);
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_EQ(scores[0], (std::pair<std::string, double>{"red", 1}));
  EXPECT_EQ(scores[1].first, "blue");
  EXPECT_NEAR(scores[1].second, 2.0 / 3, 1e-12);
  EXPECT_NEAR(scores[2].second, 1.0 / 3, 1e-12);
}

}  // namespace
}  // namespace asr
