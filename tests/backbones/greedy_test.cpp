// Rows that have ended leave the batch, and nothing else changes.
#include "backbones/greedy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "backbones/tiny.h"
#include "tests/backbones/reference_checks.h"
#include "tests/support/files.h"

namespace asr {
namespace {

// Row r counts down from r + 2 and ends at 0; the "state" is the number itself.
TEST(Greedy, EndedRowsAreNotComputed) {
  for (const double leave_at : {0.0, 0.5, 1.0})
    for (const bool fill : {false, true}) {
      std::vector<int64_t> sizes;
      torch::Tensor held = torch::tensor({7, 8, 9, 10});  // what a cache would hold of each row
      GreedyLoop loop;
      loop.logits = [](const torch::Tensor& state) { return at::one_hot(state.squeeze(1).to(at::kLong), 11); };
      loop.advance = [&](const torch::Tensor& ids, const torch::Tensor& position) {
        sizes.push_back(ids.size(0));
        // A row meets its own cache and its own position.
        EXPECT_EQ(ids.size(0), held.size(0));
        EXPECT_TRUE((position.squeeze(1) - held).eq(position[0][0] - held[0]).all().item<bool>());
        return (ids.unsqueeze(-1) - 1).clamp_min(0);
      };
      loop.keep_rows = [&](const torch::Tensor& rows) { held = held.index_select(0, rows); };
      loop.end_tokens = {0};
      loop.limit = 4;
      loop.filler = 5;
      loop.fill = fill;
      loop.leave_at = leave_at;
      const auto answers = decode_greedily(loop, torch::tensor({2, 0, 9, 1}).view({4, 1, 1}), held.view({4, 1}) + 100);
      if (fill)
        EXPECT_EQ(answers, (std::vector<std::vector<int64_t>>{{2, 1, 0, 5}, {0, 5, 5, 5}, {9, 8, 7, 6}, {1, 0, 5, 5}}));
      else
        EXPECT_EQ(answers, (std::vector<std::vector<int64_t>>{{2, 1}, {}, {9, 8, 7, 6}, {1}}));
      const std::map<double, std::vector<int64_t>> expected = {{0, {4, 4, 4}}, {0.5, {4, 2, 1}}, {1, {3, 2, 1}}};
      EXPECT_EQ(sizes, expected.at(leave_at));
    }
}

size_t lengths_of(const std::vector<std::vector<int64_t>>& answers, size_t limit) {
  std::set<size_t> lengths;
  for (const auto& answer : answers)
    if (answer.size() < limit) lengths.insert(answer.size());
  return lengths.size();
}

Batch many_questions(const TinyBackbone& model) {
  torch::manual_seed(8);
  Batch batch;
  batch.pixels = torch::rand({12, 3, 32, 32});
  batch.ids = torch::randint(4, model.tokenizer().size(), {12, 6});
  batch.mask = torch::ones({12, 6}, at::kBool);
  batch.mask.narrow(0, 0, 4).narrow(1, 4, 2).fill_(false);
  batch.labels = torch::full({12, 6}, -1, at::kLong);
  batch.question = batch.mask;
  batch.inserted = torch::randn({12, 1, model.width()});
  return batch;
}

// Several random models, until one's answers end at several places.
TEST(Greedy, BuiltInModelsAnswerTheSame) {
  const auto tokenizer = WordTokenizer::from_texts({"what color is the circle?", "red green blue"});
  for (const std::string kind : {"tiny", "tiny_cross"}) {
    auto config = tiny_config(kind, "S");
    config.vision.image = 32;
    config.text.layers = 2;
    size_t lengths = 0;
    for (uint64_t seed = 1; seed <= 40 && lengths < 3; ++seed) {
      const auto model = TinyBackbone::random(config, tokenizer, seed);
      {
        at::NoGradGuard no_grad;
        model->token_embedding()[WordTokenizer::kEnd].mul_(3);
      }
      const auto batch = many_questions(*model);
      const auto leaving = model->generate(batch, Pass{}, 12);
      BackboneOptions options;
      options.ended_rows_leave = false;
      model->configure(options);
      EXPECT_EQ(model->generate(batch, Pass{}, 12), leaving) << kind << " " << seed;
      lengths = std::max(lengths, lengths_of(leaving, 12));
    }
    EXPECT_GE(lengths, 3u) << kind;
  }
}

class GreedyModels : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, GreedyModels, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(GreedyModels, PretrainedModelsAnswerTheSame) {
  auto golden = open_reference(GetParam());
  if (IsSkipped()) return;
  // Every third token ends an answer.
  auto ends = nlohmann::json::array();
  for (int64_t id = 0; id < load_pretrained(golden.folder)->language().vocabulary(); id += 3) ends.push_back(id);
  write_text(golden.folder + "/generation_config.json", nlohmann::json({{"eos_token_id", ends}}).dump());
  const auto model = open_model(golden.folder);
  auto batch = batch_of(golden);
  const auto prompt = batch.mask.logical_and(batch.labels.lt(0));
  for (const int64_t limit : {1, 10}) {
    model->configure({});
    const auto leaving = model->continue_greedily(batch, prompt, Pass{}, limit, false);
    const auto filled = model->continue_greedily(batch, prompt, Pass{}, limit, true);
    BackboneOptions options;
    options.ended_rows_leave = false;
    model->configure(options);
    EXPECT_EQ(model->continue_greedily(batch, prompt, Pass{}, limit, false), leaving);
    EXPECT_EQ(model->continue_greedily(batch, prompt, Pass{}, limit, true), filled);
    for (const auto& answer : filled) EXPECT_EQ(answer.size(), static_cast<size_t>(limit));
  }
}

}  // namespace
}  // namespace asr
