// Rows are answered in the order that suits a model; answers, slots and scores come back in the order of the rows.
#include "data/packed_samples.h"
#include "tests/train/run_support.h"
#include "train/evaluator.h"

namespace asr {
namespace {

// Answers with the ids of the rows that were routed last.
struct EchoTask final : Task {
  explicit EchoTask(const std::vector<std::string>& last) : ids(last) {}
  std::string head() const override { return "generate"; }
  void ask_for_loss(Want&) const override {}
  void ask_for_logits(Want&) const override {}
  torch::Tensor loss(const Output&, const SampleBatch&, const torch::Tensor&) const override { return {}; }
  torch::Tensor logits(const Output&, const std::vector<torch::Tensor>&) const override { return {}; }
  int64_t learnt(const SampleBatch&) const override { return 0; }
  std::vector<std::string> answers(const Backbone&, const Batch& batch, const Pass&, int64_t) const override {
    EXPECT_EQ(batch.same_picture.size(), ids.size());
    return ids;
  }
  const std::vector<std::string>& ids;
};

TEST(AnsweringOrder, AnswersComeBackInTheOrderOfTheRows) {
  const auto model = load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llava");
  PictureSource source;
  source.picture = [](int64_t) { return Image8{32, 32, std::vector<uint8_t>(32 * 32 * 3, 90)}; };
  source.file = [](int64_t i) { return PictureFile{cat(i % 3, ".png")}; };
  const auto text = [](int64_t i) {
    StreamSample out;
    out.id = cat("q", i);
    out.question = std::string(static_cast<size_t>(20 - i), 'a') + "?";
    out.answer = cat(i < 5 ? "q" : "other ", i);
    out.references = {out.answer};
    return out;
  };
  const auto set = packed_samples(8, text, source, *model, nullptr);
  std::vector<std::string> ids, answered;
  const PassFor pass = [&](const SampleBatch& batch) {
    RoutedPass out;
    ids.clear();
    for (const auto& info : batch.info) {
      ids.push_back(info.id);
      answered.push_back(info.id);
      out.choices.push_back({"slot of " + info.id, 1});
    }
    return out;
  };
  const Team alone;
  const auto score = evaluate_task({*model, EchoTask(ids), pass}, *set, "exact", 3, alone);
  ASSERT_EQ(score.texts.size(), 8u);
  EXPECT_NE(answered, score.texts);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(score.texts[i], cat("q", i));
    EXPECT_EQ(score.slots[i], cat("slot of q", i));
    EXPECT_EQ(score.per_sample[i], i < 5 ? 1 : 0);
  }
}

}  // namespace
}  // namespace asr
