// The same contract for both kinds of sample sets.
#include "data/sample_set.h"

#include "data/embedding_cache.h"
#include "tests/data/support.h"

namespace asr {
namespace {

class EverySampleSet : public ::testing::TestWithParam<const char*> {
 protected:
  EverySampleSet() : stream(small_world()) {
    if (std::string(GetParam()) == "packed") {
      model = packing_model();
      set = packed_world(*stream, *model, &analyser);
      other = packed_world(*stream, *model, &analyser, 1);
    } else {
      model = small_model();
      set = encoded_world(*stream, *model, &analyser);
      other = encoded_world(*stream, *model, &analyser, 1);
    }
  }
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Backbone> model;
  CountingAnalyser analyser;
  std::shared_ptr<SampleSet> set, other;
};

INSTANTIATE_TEST_SUITE_P(SampleSets, EverySampleSet, ::testing::Values("encoded", "packed"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(EverySampleSet, RowsCarryWhatIsKnownOfThem) {
  const auto batch = set->rows({3, 0, 17});
  ASSERT_EQ(batch.size(), 3);
  ASSERT_EQ(batch.info.size(), 3u);
  EXPECT_EQ(batch.info[0].id, stream->text(0, DataSplit::train, 3).id);
  EXPECT_EQ(batch.info[2].answer, set->info(17).answer);
  EXPECT_TRUE(batch.posterior.equal(set->posterior.index_select(0, torch::tensor({3, 0, 17}))));
  EXPECT_FALSE(batch.reference_image.defined());
  EXPECT_EQ(set->picture(5).rgb, stream->sample(0, DataSplit::train, 5).pixels);
}

TEST_P(EverySampleSet, PicturesOfABatchAreThoseOfItsRows) {
  const auto batch = set->training_rows({3, 0, 3}, 5), more = other->rows({8});
  ASSERT_TRUE(static_cast<bool>(batch.pictures));
  EXPECT_EQ(batch.pictures.read(1).rgb, set->picture(0).rgb);
  EXPECT_EQ(batch.pictures.key(0), batch.pictures.key(2));
  EXPECT_NE(batch.pictures.key(0), batch.pictures.key(1));
  const auto both = join(batch, more);
  EXPECT_EQ(both.pictures.read(2).rgb, set->picture(3).rgb);
  EXPECT_EQ(both.pictures.read(3).rgb, other->picture(8).rgb);
  EXPECT_EQ(both.pictures.key(3), more.pictures.key(0));
  SampleBatch without = more;
  without.pictures = {};
  EXPECT_FALSE(static_cast<bool>(join(batch, without).pictures));
  const auto composed = set->composed({{5, 1}, {kBlankPicture, 2}});
  EXPECT_EQ(composed.pictures.read(0).rgb, set->picture(5).rgb);
  EXPECT_EQ(composed.pictures.key(0), set->rows({5}).pictures.key(0));
  EXPECT_EQ(composed.pictures.read(1).rgb, std::vector<uint8_t>(set->picture(2).rgb.size(), 0));
  EXPECT_NE(composed.pictures.key(1), set->rows({2}).pictures.key(0));
}

TEST_P(EverySampleSet, PrefetchedRowsAreTheSame) {
  const auto plain = set->rows({4, 9});
  set->prefetch({4, 9});
  expect_same_input(set->rows({4, 9}).input, plain.input);
  expect_same_input(set->rows({4, 9}).input, plain.input);
}

TEST_P(EverySampleSet, SubsetAndUnionHaveTheSameRows) {
  const auto part = set->subset({7, 2, 30});
  ASSERT_EQ(part->size(), 3);
  EXPECT_EQ(part->info(2).id, set->info(30).id);
  expect_same_input(part->rows({2, 0}).input, set->rows({30, 7}).input);
  EXPECT_TRUE(part->rows({2, 0}).posterior.equal(set->rows({30, 7}).posterior));
  const auto all = concatenate({set.get(), other.get(), part.get()});
  ASSERT_EQ(all->size(), 83);
  expect_same_input(all->rows({45}).input, other->rows({5}).input);
  expect_same_input(all->rows({82}).input, set->rows({30}).input);
  EXPECT_EQ(all->picture(45).rgb, other->picture(5).rgb);
  EXPECT_TRUE(all->rows({45}).posterior.equal(other->rows({5}).posterior));
}

TEST_P(EverySampleSet, ComposedOfItsOwnPartsIsTheRow) {
  const auto rows = set->rows({3, 8});
  const auto again = set->composed({{3, 3}, {8, 8}});
  expect_same_input(again.input, rows.input);
  EXPECT_TRUE(again.posterior.equal(rows.posterior));
  EXPECT_EQ(again.info[1].question, rows.info[1].question);
}

TEST_P(EverySampleSet, PicturesAndTextsOfDifferentRowsMeet) {
  const auto mixed = set->composed({{3, 8}, {8, 3}});
  const auto apart = set->rows({8, 3});
  const auto pictures = set->rows({3, 8});
  EXPECT_TRUE(mixed.input.ids.equal(apart.input.ids));
  EXPECT_TRUE(mixed.input.labels.equal(apart.input.labels));
  EXPECT_TRUE(mixed.input.pixels.equal(pictures.input.pixels));
  EXPECT_FALSE(mixed.input.pixels.equal(apart.input.pixels));
  EXPECT_EQ(mixed.info[0].id, set->info(8).id) << "what is known belongs to the text";
}

TEST_P(EverySampleSet, RewrittenRowsAskAnewOfTheSamePicture) {
  ComposedRow row{3, 3};
  row.question = "is there a door?";
  row.answer = "no";
  const auto batch = set->composed({row});
  const auto before = set->rows({3});
  EXPECT_TRUE(batch.input.pixels.equal(before.input.pixels));
  EXPECT_FALSE(batch.input.ids.size(1) == before.input.ids.size(1) && batch.input.ids.equal(before.input.ids));
  EXPECT_EQ(batch.info[0].answer, "no");
  EXPECT_EQ(batch.info[0].references, (std::vector<std::string>{"no"}));
  EXPECT_TRUE(batch.posterior.equal(analyser.posterior({"is there a door?"}, {""})));
  EXPECT_EQ(batch.input.functional.sum().item<int64_t>() > 0, true) << "'door' has an o";
  const auto out = model->forward(batch.input, Pass{}, Want{});
  EXPECT_TRUE(std::isfinite(out.loss.item<double>()));
}

TEST_P(EverySampleSet, ABlankPictureIsTheSameUnderEveryText) {
  const auto batch = set->composed({{kBlankPicture, 3}, {kBlankPicture, 8}, {3, 3}});
  const auto pixels = batch.input.pixels;
  const int64_t each = pixels.size(0) / 3;
  EXPECT_TRUE(pixels.narrow(0, 0, each).equal(pixels.narrow(0, each, each)));
  EXPECT_FALSE(pixels.narrow(0, 0, each).equal(pixels.narrow(0, 2 * each, each)));
}

TEST_P(EverySampleSet, WhatIsNotThereIsRefused) {
  EXPECT_CONTAINS(error_of([&] { set->composed({{40, 0}}); }), "there is no row (picture 40, text 0) in 40 samples");
  EXPECT_CONTAINS(error_of([&] { set->composed({{0, -1}}); }), "there is no row");
  EXPECT_CONTAINS(error_of([&] { set->composed({{-2, 0}}); }), "there is no row");
  ComposedRow empty{0, 0};
  empty.answer = "";
  EXPECT_CONTAINS(error_of([&] { set->composed({empty}); }), "is empty");
  EXPECT_CONTAINS(error_of([&] { concatenate({}); }), "union of no samples");
}

TEST_P(EverySampleSet, OtherSamplesCanBeMadeOfTextsAndPictures) {
  std::vector<SampleInfo> info = {set->info(4), set->info(1)};
  const auto made = set->made_of(info, [&](int64_t i) { return set->picture(i == 0 ? 4 : 1); });
  expect_same_input(made->rows({0, 1}).input, set->rows({4, 1}).input);
  EXPECT_FALSE(made->posterior.defined());
  EXPECT_EQ(made->info(0).id, set->info(4).id);
}

TEST(EncodedSamples, FeaturesAreOfThePicturesAsked) {
  const auto stream = small_world(140);
  const auto model = small_model();
  const auto sample = [&](int64_t i) { return stream->sample(0, DataSplit::train, i); };
  auto set = encode_samples(140, sample, *model, nullptr);
  const auto pixels = set.composed({{3, 8}, {kBlankPicture, 8}}).input.pixels;
  set.keep_features(Team());
  const auto features = set.composed({{3, 8}, {kBlankPicture, 8}}).input.features;
  ASSERT_TRUE(features.defined());
  at::NoGradGuard no_grad;
  EXPECT_LT((features - model->encode_images(pixels)).abs().max().item<double>(), 1e-5);
  std::vector<AdapterSite> tower;
  for (const auto& site : model->all_sites())
    if (site.part == SitePart::vision) tower.push_back(site);
  add_experts(tower, 2, 4, 3);
  EXPECT_TRUE(set.rows({3}).input.pixels.defined()) << "features are of the tower without adapters";
  EXPECT_FALSE(set.rows({3}).input.features.defined());
}

TEST(PackedSamples, APictureThatCannotBeReadIsNamed) {
  const auto stream = small_world();
  const auto model = packing_model();
  PictureSource source;
  source.picture = [](int64_t i) { return read_image(cat("/none/", i, ".png")); };
  const auto set = packed_samples(
      5, [&](int64_t i) { return stream->text(0, DataSplit::train, i); }, source, *model, nullptr);
  EXPECT_THROW(set->rows({2}), UnreadableSample);
  EXPECT_CONTAINS(error_of([&] { set->rows({2}); }), "/none/2.png");
  set->prefetch({3});
  EXPECT_THROW(set->rows({3}), UnreadableSample);
  EXPECT_THROW(set->composed({{kBlankPicture, 1}}), UnreadableSample);
}

TEST(PackedSamples, QuestionsAboutOnePictureComeTogetherAndReadItOnce) {
  const auto model = packing_model();
  const std::vector<std::string> questions = {"what is it here?", "what?", "where is it?",
                                              "is it red?",       "it?",   "who is it then, say?"};
  const std::vector<int> shown = {0, 1, 2, 0, 2, 1};
  std::vector<int> reads(3, 0);
  PictureSource source;
  source.picture = [&](int64_t i) {
    const int number = shown[static_cast<size_t>(i)];
    ++reads[static_cast<size_t>(number)];
    return Image8{32, 32, std::vector<uint8_t>(32 * 32 * 3, static_cast<uint8_t>(60 * number))};
  };
  source.file = [&](int64_t i) { return PictureFile{cat(shown[static_cast<size_t>(i)], ".png")}; };
  const auto text = [&](int64_t i) {
    StreamSample out;
    out.id = cat("q", i);
    out.question = questions[static_cast<size_t>(i)];
    out.answer = "red";
    return out;
  };
  const auto set = packed_samples(6, text, source, *model, nullptr);
  // Pictures by their longest question (12, 16 and 20 letters), questions from short to long.
  const auto order = set->answering_order();
  EXPECT_EQ(order, (std::vector<int64_t>{4, 2, 3, 0, 1, 5}));
  const auto batch = set->rows(order);
  EXPECT_EQ(reads, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(same_pictures(batch), (std::vector<int64_t>{0, 0, 2, 2, 4, 4}));
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(batch.info[i].id, cat("q", order[i]));
    EXPECT_TRUE(batch.input.pixels[static_cast<int64_t>(i)].equal(set->rows({order[i]}).input.pixels[0]));
  }
  set->training_rows({0, 3}, 9);  // each gets a picture of its own
  EXPECT_EQ(reads[0], 1 + 2 + 2);
}

TEST(PackedSamples, AugmentationIsKeyed) {
  const auto stream = small_world();
  const auto model = packing_model();
  const auto set = packed_world(*stream, *model, nullptr);
  const auto rows = range(0, 12);
  const auto one = set->training_rows(rows, 5), again = set->training_rows(rows, 5), two = set->training_rows(rows, 6);
  EXPECT_TRUE(one.input.pixels.equal(again.input.pixels));
  EXPECT_FALSE(one.input.pixels.equal(two.input.pixels));
  EXPECT_EQ(one.augmentation, std::optional<uint64_t>(5));
}

TEST(EmbeddingCache, AsksOnceForEverySample) {
  EmbeddingCache cache;
  int64_t asked = 0;
  const auto compute = [&](const std::vector<int64_t>& missing) {
    asked += static_cast<int64_t>(missing.size());
    auto out = torch::zeros({static_cast<int64_t>(missing.size()), 2});
    for (size_t k = 0; k < missing.size(); ++k) out[static_cast<int64_t>(k)].fill_(static_cast<double>(missing[k]));
    return out;
  };
  const auto first = cache.get({"a", "b", "a"}, compute);
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(first.equal(torch::tensor({{0., 0.}, {1., 1.}, {0., 0.}}, at::kFloat)));
  const auto second = cache.get({"c", "b"}, compute);
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(second.equal(torch::tensor({{0., 0.}, {1., 1.}}, at::kFloat)));
  EXPECT_EQ(cache.size(), 3);
  EXPECT_EQ(cache.bytes(), 3 * 2 * 4);
  const auto wrong = [](const std::vector<int64_t>&) { return torch::zeros({5, 2}); };
  EXPECT_CONTAINS(error_of([&] { cache.get({"d"}, wrong); }), "for 1 samples");
}

}  // namespace
}  // namespace asr
