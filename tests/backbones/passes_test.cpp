// Passes of the built-in backbones against the plain computation: inserted vectors, text alone, logits everywhere, taps
// of every row and column, statistics of states.
#include <gtest/gtest.h>

#include "backbones/tiny.h"
#include "tests/support/files.h"
#include "tests/support/plain_tiny.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

struct PassCase {
  const char* kind;
  bool picture;
  int64_t inserted;
  bool slices;  // questions begin the text
};

class TinyPasses : public ::testing::TestWithParam<PassCase> {
 protected:
  void SetUp() override {
    const auto& c = GetParam();
    auto config = tiny_config(c.kind, "S");
    config.vision.image = 32;
    config.vision.layers = 1;
    config.text.layers = 3;
    const auto tokenizer = WordTokenizer::from_texts({"what color is the circle?", "red green blue"});
    model = TinyBackbone::random(config, tokenizer, 7);
    model->configure({});
    torch::manual_seed(3);
    if (c.picture) batch.pixels = torch::rand({2, 3, 32, 32});
    batch.ids = torch::tensor({{11, 12, 13, 14, 2, 8, 1}, {15, 16, 7, 2, 9, 1, 0}});
    batch.mask = torch::tensor({{1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 0}}).to(at::kBool);
    batch.labels = torch::tensor({{-1, -1, -1, -1, -1, 8, 1}, {-1, -1, -1, -1, 9, 1, -1}});
    batch.question = torch::tensor({{1, 1, 1, 1, 0, 0, 0}, {1, 1, 1, 0, 0, 0, 0}}).to(at::kBool);
    if (c.slices) batch.question_tokens = 4;
    if (c.inserted) batch.inserted = torch::randn({2, c.inserted, model->width()});
    // By hand.
    const PlainTiny plain(*model);
    std::vector<torch::Tensor> before;
    if (c.picture) {
      features = model->encode_images(batch.pixels);
      before.push_back(plain.project(features));
      visual = before[0].size(1);
    }
    if (c.inserted) before.push_back(batch.inserted.to(at::kDouble));
    words = plain.words(batch.ids);
    const auto seen = before.empty() ? torch::Tensor() : at::cat(before, 1);
    cross = model->config().text.cross;
    shift = cross || !seen.defined() ? 0 : seen.size(1);
    const auto x = shift ? at::cat({seen, words}, 1) : words;
    const auto mask = shift ? at::cat({torch::ones({2, shift}, at::kBool), batch.mask}, 1) : batch.mask;
    states = plain.run(x, mask, cross ? seen : torch::Tensor());
    for (const size_t layer : {1, 2}) early.push_back(plain.early(x, mask, cross ? seen : torch::Tensor(), layer));
    text = states.hidden.narrow(1, shift, 7);
    logits = plain.logits(text);
    image = !visual ? torch::Tensor() : cross ? before[0] : states.hidden.narrow(1, 0, visual);
    projected = visual ? before[0] : torch::Tensor();
  }
  Output pass(const Want& want) const { return model->forward(batch, Pass{}, want); }
  // Rows of a plain matrix [B, heads, T, S] at positions of the text, zeros where they are -1.
  torch::Tensor rows_of(const torch::Tensor& matrix, const torch::Tensor& rows) const {
    auto out = torch::zeros({2, matrix.size(1), rows.size(1), matrix.size(3)}, at::kDouble);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t r = 0; r < rows.size(1); ++r) {
        const int64_t row = rows[b][r].item<int64_t>();
        if (row >= 0) out[b].select(1, r).copy_(matrix[b].select(1, row + shift));
      }
    return out;
  }

  std::unique_ptr<TinyBackbone> model;
  Batch batch;
  PlainStates states;
  torch::Tensor features, words, text, logits, image, projected;
  std::vector<torch::Tensor> early;  // after layers 1 and 2, behind the next norm
  int64_t visual = 0, shift = 0;
  bool cross = false;
};
INSTANTIATE_TEST_SUITE_P(All, TinyPasses,
                         ::testing::Values(PassCase{"tiny", true, 0, true}, PassCase{"tiny", true, 2, true},
                                           PassCase{"tiny", true, 2, false}, PassCase{"tiny", false, 0, true},
                                           PassCase{"tiny", false, 3, false}, PassCase{"tiny_cross", true, 0, true},
                                           PassCase{"tiny_cross", true, 2, true},
                                           PassCase{"tiny_cross", true, 2, false},
                                           PassCase{"tiny_cross", false, 0, true},
                                           PassCase{"tiny_cross", false, 3, false}),
                         [](const auto& entry) {
                           return cat(entry.param.kind, entry.param.picture ? "_picture" : "_text", "_",
                                      entry.param.inserted, entry.param.slices ? "_slices" : "");
                         });

TEST_P(TinyPasses, LogitsLossAndState) {
  Want want;
  want.logits = want.all_logits = want.state = true;
  const auto out = pass(want);
  expect_close(out.all_logits.index({batch.mask}), logits.index({batch.mask}), 1e-4, "logits of the text");
  const auto wanted = batch.labels.flatten().ge(0).nonzero().flatten();
  const auto before = logits.flatten(0, 1).index_select(0, wanted - 1);
  expect_close(out.logits, before, 1e-4, "logits of answers");
  const auto targets = batch.labels.flatten().index_select(0, wanted);
  EXPECT_NEAR(out.loss.item<double>(), at::cross_entropy_loss(before, targets).item<double>(), 1e-4);
  expect_close(out.state, at::stack({text[0][4], text[1][3]}), 1e-4, "state before the answer");
}

TEST_P(TinyPasses, StatisticsOfStates) {
  Want want;
  want.loss = false;
  want.states = want.early = true;
  const auto out = pass(want);
  const auto over = [&](const torch::Tensor& x, bool largest) {
    std::vector<torch::Tensor> rows;
    for (int64_t b = 0; b < 2; ++b) {
      const auto own = x[b].index({batch.question[b]});
      rows.push_back(largest ? own.amax(0) : own.mean(0));
    }
    return at::stack(rows);
  };
  expect_close(out.text, over(text, false), 1e-4, "mean of the question");
  expect_close(out.text_max, over(text, true), 1e-4, "largest of the question");
  expect_close(out.text_input, over(words, false), 1e-5, "mean of the question's embeddings");
  if (!visual) {
    EXPECT_EQ(out.image.abs().max().item<double>(), 0);
    EXPECT_FALSE(out.tower_first.defined() || out.image_input.defined());
    return;
  }
  expect_close(out.image, image.mean(1), 1e-4, "mean of visual tokens");
  expect_close(out.image_max, image.amax(1), 1e-4, "largest of visual tokens");
  expect_close(out.image_input, projected.mean(1), 1e-4, "mean of projected tokens");
  expect_close(out.tower_first, features.select(1, 0), 1e-6, "first state of the tower");
  expect_close(out.tower_max, features.amax(1), 1e-6, "largest of the tower");
  expect_close(out.tower_mean, features.mean(1), 1e-5, "mean of the tower");
  EXPECT_FALSE(out.logits.defined());
}

TEST_P(TinyPasses, EarlyStatesAreThoseOfAWholePass) {
  for (const bool whole : {false, true})
    for (const int64_t layer : {1, 2, 3}) {
      Want want;
      want.loss = whole;
      want.early_layer = layer;
      const auto out = pass(want);
      EXPECT_EQ(out.loss.defined(), whole);
      const auto state = layer == 3 ? states.hidden : early[static_cast<size_t>(layer) - 1];
      const auto asked = state.narrow(1, shift, 7);
      for (int64_t b = 0; b < 2; ++b)
        expect_close(out.early_text[b], asked[b].index({batch.question[b]}).mean(0), 1e-4, cat("question ", layer));
      if (!visual) {
        EXPECT_EQ(out.early_image.abs().max().item<double>(), 0);
        continue;
      }
      expect_close(out.early_image, (cross ? projected : state.narrow(1, 0, visual)).mean(1), 1e-4, "picture");
    }
  Want beyond;
  beyond.early_layer = 4;
  EXPECT_CONTAINS(error_of([&] { pass(beyond); }), "there are no states after layer 4");
}

TEST_P(TinyPasses, TapsOfEveryRowAndColumn) {
  for (const auto rows : {TapRows::question, TapRows::answer, TapRows::text})
    for (const auto columns : {TapColumns::visual, TapColumns::all}) {
      Want want;
      want.tap_layers = 2;
      want.tap_rows = rows;
      want.tap_columns = columns;
      const bool all = columns == TapColumns::all;
      if (!all && !visual) {
        EXPECT_CONTAINS(error_of([&] { pass(want); }), "there is no picture to attend to");
        continue;
      }
      const auto out = pass(want);
      const auto asked = rows == TapRows::question ? batch.question
                         : rows == TapRows::answer ? batch.labels.ge(0)
                                                   : batch.question.logical_or(batch.labels.ge(0));
      EXPECT_TRUE(out.rows.ge(0).sum(1).equal(asked.sum(1)));
      for (int64_t layer = 0; layer < 2; ++layer) {
        const auto place = static_cast<size_t>(layer + 1);
        const auto matrix = cross && !all ? states.cross[place] : states.self[place];
        auto expected = rows_of(matrix, out.rows);
        auto found = out.attention.select(1, layer);
        if (all) {
          const auto sums = found.sum(-1).masked_select(out.rows.ge(0).unsqueeze(1));
          EXPECT_LE((sums - 1).abs().max().item<double>(), 1e-5);
          EXPECT_EQ(found.size(3), shift + 7);
        } else {
          expected = expected.narrow(3, 0, visual);
          found = found.flatten(3);
        }
        expect_close(found, expected, 1e-4, cat("layer ", layer, all ? " all" : " visual"));
      }
    }
}

// Token by token with whole passes.
TEST_P(TinyPasses, GenerationContinuesTheSameSequence) {
  Batch prompt = batch;
  const auto answers = model->generate(prompt, Pass{}, 4);
  for (int64_t b = 0; b < 2; ++b) {
    Batch one;
    if (batch.pixels.defined()) one.pixels = batch.pixels.narrow(0, b, 1);
    if (batch.inserted.defined()) one.inserted = batch.inserted.narrow(0, b, 1);
    one.ids = batch.ids.narrow(0, b, 1).narrow(1, 0, b == 0 ? 5 : 4);
    std::vector<int64_t> expected;
    for (int step = 0; step < 4; ++step) {
      one.mask = torch::ones_like(one.ids).to(at::kBool);
      one.labels = torch::full_like(one.ids, -1);
      one.question = one.mask;
      Want want;
      want.loss = false;
      want.all_logits = true;
      const auto best = model->forward(one, Pass{}, want).all_logits.select(1, one.ids.size(1) - 1).argmax(-1);
      if (best.item<int64_t>() == WordTokenizer::kEnd) break;
      expected.push_back(best.item<int64_t>());
      one.ids = at::cat({one.ids, best.unsqueeze(0)}, 1);
    }
    EXPECT_EQ(answers[static_cast<size_t>(b)], expected) << b;
  }
}

TEST_P(TinyPasses, GradientReachesWhatIsInserted) {
  if (!batch.inserted.defined()) return;
  batch.inserted.requires_grad_();
  const auto grad = gradients(pass({}).loss, {batch.inserted})[0];
  EXPECT_GT(grad.abs().amax({0, 2}).min().item<double>(), 0);
}

TEST(TinyPass, WithoutPicturesIsTheTextAlone) {
  auto config = tiny_config("tiny_cross", "S");
  config.vision.image = 32;
  const auto model = TinyBackbone::random(config, WordTokenizer::from_texts({"what is it?"}), 1);
  Batch batch;
  batch.pixels = torch::rand({1, 3, 32, 32});
  const auto alone = model->without_pictures(batch);
  EXPECT_FALSE(alone.pixels.defined() || alone.features.defined());
  batch.ids = torch::tensor({{5, 6, 2, 7}});
  batch.mask = batch.ids.gt(0);
  batch.question = batch.mask;
  batch.labels = torch::tensor({{-1, -1, -1, 7}});
  batch.inserted = torch::zeros({1, 2, 3});
  EXPECT_CONTAINS(error_of([&] { model->forward(batch, Pass{}, {}); }), "must be [1, count, 128]");
}

}  // namespace
}  // namespace asr
