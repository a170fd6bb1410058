// Questions about one picture share it: answers are those of questions that do not, whatever weighs the experts.
#include "backbones/shared_rows.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/backbones/reference_checks.h"
#include "tests/support/files.h"
#include "tests/support/small_tokenizer.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

constexpr int64_t kPictureToken = 7;

torch::Tensor numbers(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<torch::Tensor> out;
  for (const auto& row : rows) out.push_back(torch::tensor(row, at::kLong));
  return at::stack(out);
}

RowGroups two_groups() {  // rows 0 and 2, and row 1
  RowGroups out;
  out.leads = {0, 1};
  out.group = {0, 1, 0};
  return out;
}

TEST(SharedRows, APrefixEndsWhereQuestionsPart) {
  const auto ids = numbers({{0, 1, 7, 7, 2, 3, 4}, {1, 7, 7, 7, 2, 3, 3}, {1, 7, 7, 2, 5, 6, 6}});
  const auto mask = numbers({{0, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}}).ne(0);
  const auto parts = shared_prefix(ids, mask, two_groups(), kPictureToken);
  // 1 7 7 2 of rows 0 and 2; of row 1, which is alone, what holds its picture.
  EXPECT_TRUE(parts.ids.equal(numbers({{1, 7, 7, 2}, {1, 7, 7, 7}})));
  EXPECT_TRUE(parts.mask.equal(at::ones({2, 4}, at::kBool)));
  EXPECT_TRUE(parts.suffix_mask.equal(numbers({{0, 1, 1}, {1, 1, 1}, {1, 1, 1}}).ne(0)));
}

TEST(SharedRows, APrefixLeavesEveryRowAToken) {
  RowGroups all;
  all.leads = {0};
  all.group = {0, 0, 0};
  const auto same = numbers({{1, 7, 7, 2}, {1, 7, 7, 2}, {1, 7, 7, 2}});
  const auto parts = shared_prefix(same, at::ones_like(same, at::kBool), all, kPictureToken);
  EXPECT_TRUE(parts.ids.equal(numbers({{1, 7, 7}})));
  EXPECT_EQ(parts.suffix(), 1);
  // One that ends where others go on.
  const auto ids = numbers({{1, 7, 7, 2, 3}, {0, 1, 7, 7, 2}});
  all.group = {0, 0};
  const auto shorter = shared_prefix(ids, ids.ne(0), all, kPictureToken);
  EXPECT_TRUE(shorter.ids.equal(numbers({{1, 7, 7}})));
  EXPECT_TRUE(shorter.suffix_mask.equal(numbers({{1, 1}, {0, 1}}).ne(0)));
}

TEST(SharedRows, NothingIsSharedWhereNothingIsSaved) {
  const auto none = [](const std::vector<std::vector<int64_t>>& rows) {
    const auto ids = numbers(rows);
    return !shared_prefix(ids, ids.ne(0), two_groups(), kPictureToken).ids.defined();
  };
  EXPECT_TRUE(none({{2, 1, 7, 7}, {1, 7, 7, 2}, {3, 1, 7, 7}}));  // questions before their picture
  EXPECT_TRUE(none({{1, 7, 7, 2}, {1, 7, 7, 2}, {2, 7, 7, 2}}));  // nothing alike
  EXPECT_FALSE(none({{1, 7, 7, 2}, {1, 7, 7, 2}, {1, 7, 7, 3}}));
}

TEST(SharedRows, RowsOfOnePictureAndOneWeightAreAGroup) {
  at::NoGradGuard no_grad;
  Batch batch;
  batch.ids = at::zeros({4, 3}, at::kLong);
  batch.pixels = at::zeros({4, 3, 2, 2});
  Pass pass;
  EXPECT_FALSE(groups_of(batch, pass).shared());  // nobody says which pictures are the same
  batch.same_picture = {5, 2, 5, 5};
  EXPECT_EQ(groups_of(batch, pass).leads, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(groups_of(batch, pass).group, (std::vector<int64_t>{0, 1, 0, 0}));
  const GivenWeights given = {{0, torch::tensor({{1.0}, {1.0}, {0.5}, {1.0}})}, {3, torch::tensor({1.0, 2.0})}};
  pass.given = &given;
  EXPECT_EQ(groups_of(batch, pass).group, (std::vector<int64_t>{0, 1, 2, 0}));
  {
    at::AutoGradMode recorded(true);
    EXPECT_FALSE(groups_of(batch, pass).shared());
  }
  batch.instruction = batch.ids;  // read beside the picture
  EXPECT_FALSE(groups_of(batch, pass).shared());
}

class SharedRowsModels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = open_reference(GetParam());
    if (IsSkipped()) return;
    if (!golden_.io.find("in.pixel_values")) GTEST_SKIP() << "a model of text alone";
    if (!std::filesystem::exists(golden_.folder + "/tokenizer.json"))
      write_small_tokenizer(golden_.folder, golden_.config);
    auto ends = nlohmann::json::array();  // answers end, at different places
    for (int64_t id = 0; id < load_pretrained(golden_.folder)->language().vocabulary(); id += 5) ends.push_back(id);
    write_text(golden_.folder + "/generation_config.json", nlohmann::json({{"eos_token_id", ends}}).dump());
    model_ = open_model(golden_.folder);
    for (const int seed : {7919, 104729}) {
      Image8 picture{60, 40, std::vector<uint8_t>(60 * 40 * 3)};
      for (size_t i = 0; i < picture.rgb.size(); ++i)
        picture.rgb[i] = static_cast<uint8_t>(i * static_cast<size_t>(seed) >> 3);
      pictures_.push_back(std::move(picture));
    }
  }

  Batch packed(const std::vector<int>& pictures) const {
    std::vector<PackItem> items;
    const std::vector<std::string> questions = {"what is the color?", "where?", "what is it?", "is it the color?", "?"};
    for (size_t i = 0; i < pictures.size(); ++i) {
      PackItem item;
      item.id = cat("item ", i);
      item.images = {&pictures_[static_cast<size_t>(pictures[i])]};
      item.question = questions[i];
      items.push_back(item);
    }
    return model_->pack(items);
  }
  std::vector<std::vector<int64_t>> answers(const Batch& batch, const Pass& pass, bool shared) {
    BackboneOptions options;
    options.prefixes_shared = shared;
    model_->configure(options);
    return model_->generate(batch, pass, 8);
  }

  Golden golden_;
  std::unique_ptr<PretrainedBackbone> model_;
  std::vector<Image8> pictures_;
};
INSTANTIATE_TEST_SUITE_P(All, SharedRowsModels, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(SharedRowsModels, APictureOfSeveralQuestionsIsPackedOnce) {
  const auto often = packed({0, 1, 0, 0});
  pictures_.push_back(pictures_[0]);
  pictures_.push_back(pictures_[0]);
  const auto copies = packed({0, 1, 2, 3});
  for (auto field : {&Batch::ids, &Batch::mask, &Batch::pixels, &Batch::image_grid, &Batch::tile_grid}) {
    ASSERT_EQ((often.*field).defined(), (copies.*field).defined());
    if (!(often.*field).defined()) continue;
    EXPECT_TRUE((often.*field).equal(copies.*field));
  }
}

TEST_P(SharedRowsModels, AnswersAreThoseOfQuestionsAlone) {
  auto batch = packed({0, 1, 0, 1, 0});
  const auto expected = answers(batch, Pass{}, false);
  batch.same_picture = {0, 1, 0, 1, 0};
  EXPECT_EQ(answers(batch, Pass{}, true), expected);
  EXPECT_EQ(answers(batch, Pass{}, false), expected);
  if (batch.instruction.defined()) return;  // its vision path reads the question: nothing is shared
  // Rows that are said to show the first one's picture are answered by it: it was looked at once.
  const auto lied = packed({0, 0, 0, 0, 0});
  batch.same_picture = {0, 0, 0, 0, 0};
  const auto of_the_first = answers(lied, Pass{}, false);
  EXPECT_NE(of_the_first, expected);
  for (const bool shared : {true, false}) EXPECT_EQ(answers(batch, Pass{}, shared), of_the_first);
}

TEST_P(SharedRowsModels, StatisticsAreThoseOfPicturesSeenOneByOne) {
  at::NoGradGuard no_grad;
  auto batch = packed({0, 1, 0});
  Want want;
  want.loss = false;
  want.early = true;
  want.pooled = true;
  const auto expected = model_->forward(batch, Pass{}, want);
  batch.same_picture = {0, 1, 0};
  const auto found = model_->forward(batch, Pass{}, want);
  for (auto field : {&Output::image, &Output::text, &Output::image_input, &Output::tower_first, &Output::tower_max,
                     &Output::tower_mean})
    expect_close(found.*field, expected.*field, 1e-6, "statistics");
}

// Experts weighed by numbers of each sample's own, by a router of every token, and by one that reads the prompt.
TEST_P(SharedRowsModels, GatesWeighAsTheyDoAlone) {
  const GivenWeights given = {{0, torch::tensor({{1.0, 0.2}, {-0.5, 0.8}, {1.0, 0.2}, {-0.5, 0.8}, {0.3, 0.3}})}};
  const auto generator = at::detail::createCPUGenerator(3);
  torch::manual_seed(12);
  for (const int kind : {0, 1, 2}) {
    for (const auto& site : model_->all_sites()) {
      site.linear->slots.clear();
      const bool text = site.part <= SitePart::down && site.name.rfind("qformer", 0) != 0;
      SlotAtSite slot;
      for (int i = 0; i < 2; ++i) {
        slot.experts.push_back(make_expert(*site.linear, 2, 4, generator));
        slot.experts.back().b.detach().normal_(0, 0.05);
      }
      slot.training.kind = text && kind > 0 ? GateKind::router : GateKind::given;
      slot.training.router = torch::randn({2, site.linear->weight.size(1)});
      slot.training.reads = kind == 2 ? RouterReads::mean : RouterReads::token;
      site.linear->slots.push_back(slot);
    }
    Pass pass;
    pass.given = &given;
    auto batch = packed({0, 0, 0, 1, 1});
    const auto expected = answers(batch, pass, false);
    batch.same_picture = {0, 0, 0, 1, 1};
    EXPECT_EQ(answers(batch, pass, true), expected) << "kind " << kind;
  }
}

}  // namespace
}  // namespace asr
