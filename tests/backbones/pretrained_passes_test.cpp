// Passes of Hugging Face models against the plain decoder on embeddings put together by hand.
#include <gtest/gtest.h>

#include <filesystem>

#include "nn/clip_vit.h"
#include "tests/backbones/reference_checks.h"
#include "tests/support/plain_decoder.h"
#include "tests/support/small_tokenizer.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

class PretrainedPasses : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden = open_reference(GetParam());
    if (IsSkipped()) return;
    model = open_model(golden.folder);
    batch = batch_of(golden);
    images = batch.ids.eq(model->image_token()).logical_and(batch.mask);
    batch.question = batch.mask.logical_and(batch.labels.lt(0)).logical_and(images.logical_not());
    at::NoGradGuard no_grad;
    features = model->inspect(batch, Pass{}, {}, batch.mask).features;
  }
  bool pictures() const { return batch.pixels.defined(); }

  // One sample, put together by hand.
  struct Row {
    torch::Tensor x;              // [1, T, width]
    std::vector<int64_t> source;  // the text's column, or -1 for an inserted vector
    std::vector<std::array<int64_t, 3>> place;
    torch::Tensor positions(bool parts) const {
      auto out = torch::zeros({3, 1, x.size(1)}, at::kLong);
      for (size_t t = 0; t < place.size(); ++t)
        for (size_t p = 0; p < 3; ++p) out[static_cast<int64_t>(p)][0][static_cast<int64_t>(t)] = place[t][p];
      return parts ? out : out[0];
    }
  };

  Row by_hand(int64_t b, const torch::Tensor& inserted) const {
    const bool qwen = model->folder().type == "qwen2_5_vl";
    const auto table = model->language().embedding.to(at::kDouble);
    int64_t feature = images.narrow(0, 0, b).sum().item<int64_t>(), image = 0, last = -1;
    for (int64_t earlier = 0; earlier < b && qwen && pictures(); ++earlier) image += pictures_of(earlier);
    for (int64_t t = 0; t < batch.ids.size(1); ++t)
      if (images[b][t].item<bool>()) last = t;
    Row out;
    std::vector<torch::Tensor> rows;
    int64_t next = 0;
    const auto add = [&](const torch::Tensor& row, int64_t column) {
      rows.push_back(row.to(at::kDouble));
      out.source.push_back(column);
      out.place.push_back({next, next, next});
      ++next;
    };
    const auto insert = [&] {
      for (int64_t i = 0; inserted.defined() && i < inserted.size(1); ++i) add(inserted[b][i], -1);
    };
    if (last < 0) insert();
    for (int64_t t = 0; t < batch.ids.size(1); ++t) {
      if (!batch.mask[b][t].item<bool>()) continue;
      if (!images[b][t].item<bool>()) {
        add(table[batch.ids[b][t].item<int64_t>()], t);
      } else if (!qwen) {
        add(features[feature++], t);
      } else {
        const int64_t frames = batch.image_grid[image][0].item<int64_t>();
        const int64_t high = batch.image_grid[image][1].item<int64_t>() / 2;
        const int64_t wide = batch.image_grid[image][2].item<int64_t>() / 2;
        const int64_t start = next;
        for (int64_t i = 0; i < frames * high * wide; ++i) {
          add(features[feature++], t + i);
          out.place.back() = {start + i / (high * wide), start + i / wide % high, start + i % wide};
        }
        next = start + std::max({frames, high, wide});
        t += frames * high * wide - 1;
        ++image;
      }
      if (t == last) insert();
    }
    out.x = at::stack(rows).unsqueeze(0);
    return out;
  }
  int64_t pictures_of(int64_t b) const {  // stretches of image tokens
    int64_t count = 0;
    for (int64_t t = 0; t < batch.ids.size(1); ++t)
      count += images[b][t].item<bool>() && (t == 0 || !images[b][t - 1].item<bool>());
    return count;
  }
  PlainStates plain(const Row& row) const {
    const bool parts = !model->language().decoder.config.rotary.sections.empty();
    return PlainDecoder(model->language().decoder)(row.x, row.positions(parts),
                                                   torch::ones({1, row.x.size(1)}, at::kBool));
  }
  torch::Tensor plain_first(const Row& row) const {  // after the first layer, behind the next one's norm
    const bool parts = !model->language().decoder.config.rotary.sections.empty();
    const auto first = first_layers(model->language().decoder, 1);
    return PlainDecoder(first)(row.x, row.positions(parts), torch::ones({1, row.x.size(1)}, at::kBool)).hidden;
  }

  Golden golden;
  std::unique_ptr<PretrainedBackbone> model;
  Batch batch;
  torch::Tensor images, features;
};
INSTANTIATE_TEST_SUITE_P(All, PretrainedPasses, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(PretrainedPasses, InsertedVectorsLogitsTapsAndStates) {
  if (IsSkipped()) return;
  at::NoGradGuard no_grad;
  torch::manual_seed(4);
  for (const int64_t count : {0, 2}) {
    batch.inserted = count ? torch::randn({batch.size(), count, model->width()}) : torch::Tensor();
    Want want;
    want.all_logits = want.states = want.early = true;
    want.early_layer = 1;
    want.loss = batch.labels.ge(0).any().item<bool>();
    want.tap_layers = 2;
    want.tap_rows = TapRows::text;
    want.tap_columns = TapColumns::all;
    const auto out = model->forward(batch, Pass{}, want);
    EXPECT_EQ(out.all_logits.size(1), batch.ids.size(1));
    EXPECT_EQ(out.attention.size(4), batch.ids.size(1) + count);
    const auto depth = model->language().decoder.layers.size();
    const auto head = model->language().head.weight.to(at::kDouble);
    for (int64_t b = 0; b < batch.size(); ++b) {
      const auto row = by_hand(b, batch.inserted);
      const auto states = plain(row);
      std::vector<int64_t> column_of(static_cast<size_t>(batch.ids.size(1)), -1), question, seen;
      std::vector<int64_t> wide;  // the column in the wider sequence of each token
      int64_t added = 0;
      const int64_t first = batch.mask[b].to(at::kLong).argmax().item<int64_t>();
      for (size_t t = 0; t < row.source.size(); ++t) {
        const int64_t source = row.source[t];
        wide.push_back(source < 0 ? -1 : source + added);
        if (source < 0) {
          wide.back() = (t == 0 ? first : wide[t - 1] + 1);
          ++added;
          continue;
        }
        column_of[static_cast<size_t>(source)] = static_cast<int64_t>(t);
        if (batch.question[b][source].item<bool>()) question.push_back(static_cast<int64_t>(t));
        if (images[b][source].item<bool>()) seen.push_back(static_cast<int64_t>(t));
        const auto logits = states.hidden[0][static_cast<int64_t>(t)].matmul(head.t());
        expect_close(out.all_logits[b][source], logits, 1e-5, cat("sample ", b, " column ", source));
      }
      const auto pick = [&](const torch::Tensor& x, const std::vector<int64_t>& index) {
        return x[0].index_select(0, torch::tensor(index, at::kLong));
      };
      expect_close(out.text[b], pick(states.hidden, question).mean(0), 1e-5, "mean of the question");
      expect_close(out.text_max[b], pick(states.hidden, question).amax(0), 1e-5, "largest of the question");
      expect_close(out.text_input[b], pick(row.x, question).mean(0), 1e-5, "mean of embeddings");
      const auto early = plain_first(row);
      expect_close(out.early_text[b], pick(early, question).mean(0), 1e-5, "question after one layer");
      if (!seen.empty()) expect_close(out.early_image[b], pick(early, seen).mean(0), 1e-5, "picture after one layer");
      if (!seen.empty()) {
        expect_close(out.image[b], pick(states.hidden, seen).mean(0), 1e-5, "mean of the picture");
        expect_close(out.image_max[b], pick(states.hidden, seen).amax(0), 1e-5, "largest of the picture");
        expect_close(out.image_input[b], pick(row.x, seen).mean(0), 1e-5, "mean of visual tokens");
      }
      for (int64_t r = 0; r < out.rows.size(1); ++r) {
        const int64_t source = out.rows[b][r].item<int64_t>();
        const auto found = out.attention[b].select(2, r);  // [L, heads, S]
        if (source < 0) {
          EXPECT_EQ(found.abs().max().item<double>(), 0);
          continue;
        }
        EXPECT_LE((found.sum(-1) - 1).abs().max().item<double>(), 1e-5);
        for (size_t layer = 0; layer < 2; ++layer) {
          const auto& matrix = states.self[depth - 2 + layer];
          auto expected = torch::zeros({matrix.size(1), out.attention.size(4)}, at::kDouble);
          for (size_t t = 0; t < wide.size(); ++t)
            expected.select(1, wide[t])
                .copy_(matrix[0].select(1, column_of[static_cast<size_t>(source)]).select(1, static_cast<int64_t>(t)));
          expect_close(found[static_cast<int64_t>(layer)], expected, 1e-5, cat("row ", source, " layer ", layer));
        }
      }
    }
  }
}

TEST_P(PretrainedPasses, TextAlone) {
  if (IsSkipped()) return;
  at::NoGradGuard no_grad;
  const auto alone = model->without_pictures(batch);
  Want want;
  want.all_logits = true;
  want.loss = false;
  const auto out = model->forward(alone, Pass{}, want);
  const auto head = model->language().head.weight.to(at::kDouble);
  const auto table = model->language().embedding.to(at::kDouble);
  for (int64_t b = 0; b < batch.size(); ++b) {
    const auto ids = batch.ids[b].index({batch.mask[b].logical_and(images[b].logical_not())});
    const int64_t T = ids.size(0);
    auto positions = at::arange(T).view({1, T});
    if (!model->language().decoder.config.rotary.sections.empty()) positions = positions.expand({3, 1, T});
    const auto states = PlainDecoder(model->language().decoder)(at::embedding(table, ids).unsqueeze(0), positions,
                                                                torch::ones({1, T}, at::kBool));
    expect_close(out.all_logits[b].narrow(0, 0, T), states.hidden[0].matmul(head.t()), 1e-5, cat("sample ", b));
    EXPECT_EQ(alone.mask[b].sum().item<int64_t>(), T);
  }
  EXPECT_EQ(model->generate(alone, Pass{}, 3).size(), static_cast<size_t>(batch.size()));
}

// Token by token with whole passes.
TEST_P(PretrainedPasses, GenerationContinuesWhatIsInserted) {
  if (IsSkipped()) return;
  at::NoGradGuard no_grad;
  torch::manual_seed(6);
  batch.inserted = torch::randn({batch.size(), 2, model->width()});
  const auto prompt = batch.mask.logical_and(batch.labels.lt(0));
  const auto answers = model->continue_greedily(batch, prompt, Pass{}, 4, /*fill=*/true);
  for (int64_t b = 0; b < batch.size(); ++b) {
    auto row = by_hand(b, batch.inserted);
    std::vector<int64_t> kept;
    for (size_t t = 0; t < row.source.size(); ++t)
      if (row.source[t] < 0 || prompt[b][row.source[t]].item<bool>()) kept.push_back(static_cast<int64_t>(t));
    ASSERT_EQ(kept.back() + 1, static_cast<int64_t>(kept.size())) << "the prompt comes first";
    row.x = row.x.narrow(1, 0, static_cast<int64_t>(kept.size()));
    row.place.resize(kept.size());
    int64_t next = 0;
    for (const auto& place : row.place) next = std::max({next, place[0] + 1, place[1] + 1, place[2] + 1});
    for (size_t step = 0; step < 4; ++step) {
      const auto state = plain(row).hidden[0][row.x.size(1) - 1];
      const auto best = model->language().head.weight.to(at::kDouble).matmul(state).argmax().item<int64_t>();
      EXPECT_EQ(answers[static_cast<size_t>(b)][step], best) << "sample " << b << " step " << step;
      row.x = at::cat({row.x, model->language().embedding[best].to(at::kDouble).view({1, 1, -1})}, 1);
      row.place.push_back({next, next, next});
      ++next;
    }
  }
}

TEST_P(PretrainedPasses, GradientReachesWhatIsInserted) {
  if (IsSkipped()) return;
  batch.inserted = torch::randn({batch.size(), 2, model->width()}).requires_grad_();
  const auto grad = gradients(model->forward(batch, Pass{}, {}).loss, {batch.inserted})[0];
  EXPECT_GT(grad.abs().amax({0, 2}).min().item<double>(), 0);
}

// Pictures of two sizes: each sample's statistics are its own.
TEST_P(PretrainedPasses, StatisticsOfTheTowerBelongToTheirSamples) {
  if (IsSkipped()) return;
  if (!pictures()) GTEST_SKIP() << "a model of text alone";
  at::NoGradGuard no_grad;
  if (!std::filesystem::exists(golden.folder + "/tokenizer.json")) write_small_tokenizer(golden.folder, golden.config);
  model = open_model(golden.folder);
  std::vector<Image8> pictures;
  for (const auto& [height, width] : {std::pair<int, int>{40, 60}, {60, 30}}) {
    pictures.push_back({height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))});
    for (size_t i = 0; i < pictures.back().rgb.size(); ++i)
      pictures.back().rgb[i] = static_cast<uint8_t>(i * (7919 + pictures.size()) >> 3);
  }
  std::vector<PackItem> items(2);
  for (size_t i = 0; i < 2; ++i) {
    items[i].id = cat("item ", i);
    items[i].answer = "red";
    items[i].images = {&pictures[i]};
    items[i].question = i ? "what is the color?" : "where?";
  }
  Want want;
  want.loss = false;
  want.early = true;
  const auto both = model->forward(model->pack(items), Pass{}, want);
  for (size_t i = 0; i < 2; ++i) {
    const auto one = model->forward(model->pack({items[i]}), Pass{}, want);
    for (auto field :
         {&Output::tower_first, &Output::tower_max, &Output::tower_mean, &Output::image_input, &Output::text_input})
      expect_close((both.*field).narrow(0, static_cast<int64_t>(i), 1), one.*field, 1e-5, cat("sample ", i));
    EXPECT_TRUE(one.tower_max.ge(one.tower_mean).all().item<bool>());
  }
  EXPECT_GT((both.tower_first[0] - both.tower_first[1]).abs().max().item<double>(), 1e-4);
  EXPECT_FALSE(both.loss.defined() || both.image.defined());  // the language model has not run
}

// CLIP's own class token and patches, from a tower that hands out both.
TEST(LlavaPasses, StatisticsAreThoseOfTheClassTokenAndThePatches) {
  const auto golden = open_reference("llava");
  const auto model = open_model(golden.folder);
  auto config = golden.config;
  config["vision_feature_select_strategy"] = "full";
  Weights weights(golden.folder, {{"model.vision_tower.vision_model.", "vision."},
                                  {"vision_tower.vision_model.", "vision."},
                                  {"model.vision_tower.", "vision."},
                                  {"vision_tower.", "vision."}});
  const ClipVit tower(config, weights.below("vision."));
  const auto batch = batch_of(golden);
  at::NoGradGuard no_grad;
  const auto states = tower(batch.pixels.to(at::kDouble), Pass{});
  Want want;
  want.loss = false;
  want.early = true;
  auto asked = batch;
  asked.question = batch.mask;
  const auto out = model->forward(asked, Pass{}, want);
  expect_close(out.tower_first, states.select(1, 0), 1e-6, "class token");
  expect_close(out.tower_max, states.slice(1, 1).amax(1), 1e-6, "largest");
  expect_close(out.tower_mean, states.slice(1, 1).mean(1), 1e-6, "mean");
}

}  // namespace
}  // namespace asr
