// PCLR: what a query chooses, what a stage may change, how its ranks begin and what they add.
#include <cmath>
#include <set>

#include "methods/terms/sample_queries.h"
#include "tests/methods/pclr_case.h"

namespace asr {
namespace {

TEST(Pclr, KeysBeginAtTheStagesMeanQuery) {
  PclrCase one;
  const auto set = one.made->data();
  one.begin(1, set);
  const auto mean = query_of(*one.made, set.rows(range(0, set.size()))).mean(0);
  ASSERT_EQ(one.stored("fresh_keys").size(0), 4);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_LT((one.stored("fresh_keys")[i].to(at::kDouble) - mean).abs().max().item<double>(), 1e-5);
  EXPECT_LT((one.stored("queries")[0].to(at::kDouble) - mean).abs().max().item<double>(), 1e-5);
}

// Of the tower's states a query has the first, or, where there is no class token, better their mean.
TEST(Pclr, AQuerysPictureMayBeTheMeanState) {
  PclrCase one(MethodOptions{{"picture", "mean"}});
  const auto set = one.made->data();
  one.begin(1, set);
  const auto batch = set.rows(range(0, set.size()));
  const auto mean = query_of(*one.made, batch, true).mean(0), first = query_of(*one.made, batch).mean(0);
  EXPECT_GT((mean - first).abs().max().item<double>(), 0.01);
  for (const char* name : {"queries", "fresh_keys"})
    EXPECT_LT((one.stored(name)[0].to(at::kDouble) - mean).abs().max().item<double>(), 1e-5) << name;
  // Samples ask by the same.
  const auto moved = one.drawn({4, mean.size(0)});
  put_tensor(*one.made->method, "fresh_keys", moved);
  const auto own = query_of(*one.made, batch, true);
  double far = 0;
  for (int64_t b = 0; b < own.size(0); ++b)
    for (int64_t k = 0; k < 4; ++k)
      for (const auto& [begin, width] : {std::make_pair(int64_t(0), int64_t(32)), {32, own.size(1) - 32}}) {
        const auto q = own[b].narrow(0, begin, width), key = moved[k].narrow(0, begin, width).to(at::kDouble);
        far += 1 - ((q * key).sum() / (q.norm() * key.norm())).item<double>();
      }
  far /= static_cast<double>(4 * own.size(0));
  EXPECT_NEAR(one.made->losses(batch).log.at("alignment_loss").item<double>(), 0.2 * far, 1e-5);
}

TEST(Pclr, AlignmentIsTheCosineDistanceOfNewKeys) {
  PclrCase one(MethodOptions{{"alignment", "0.7"}});
  const auto set = one.made->data(), other = one.made->data(5);
  one.begin(1, set);
  auto batch = other.rows(range(0, 6));
  batch.info[5].stage = 7;  // replayed: not the stage's own
  const auto added = one.made->losses(batch);
  const auto queries = query_of(*one.made, batch), keys = one.stored("fresh_keys").to(at::kDouble);
  double expected = 0;
  const int64_t text = 32;
  for (int64_t b = 0; b < 5; ++b)
    for (int64_t k = 0; k < 4; ++k)
      for (const auto& [begin, width] : {std::make_pair(int64_t(0), text), std::make_pair(text, keys.size(1) - text)}) {
        const auto q = queries[b].narrow(0, begin, width), key = keys[k].narrow(0, begin, width);
        expected += (1 - (q * key).sum() / (q.norm() * key.norm())).item<double>() / (6 * 4);
      }
  EXPECT_NEAR(added.total().item<double>(), 0.7 * expected, 1e-5);
  // Keys alone learn by it.
  auto group = one.made->method->parameters();
  ASSERT_EQ(group.size(), 1u);
  EXPECT_EQ(group[0].parameters[0].first, "pclr.keys");
}

// A stage may learn fewer ranks than a slot has room for; the keys of the others are none.
TEST(Pclr, AlignmentLeavesOutKeysOfRanksThatAreNotThere) {
  PclrCase one(MethodOptions{{"alignment", "1"}});
  const auto set = one.made->data();
  one.begin(1, set);
  const auto batch = set.rows(range(0, 3));
  auto keys = one.stored("fresh_keys").clone();
  keys.narrow(0, 2, 2).neg_();
  put_tensor(*one.made->method, "fresh_keys", keys);
  const double all = one.made->losses(batch).total().item<double>();
  put_tensor(*one.made->method, "fresh_count", torch::tensor({2}, at::kLong));
  const double some = one.made->losses(batch).total().item<double>();
  // Of four keys, two are the others turned round: 1 - cos and 1 + cos, of text and picture, are 2 on average.
  EXPECT_NEAR(all, 2, 1e-5);
  EXPECT_LT(some, 1.9);
}

// A question without a picture has zeros in the place of one, beside others that have pictures and alone.
TEST(Pclr, AQueryHasZerosWhereThereIsNoPicture) {
  const auto model = load_backbone(ASR_SOURCE_DIR "/tests/fixtures/models/llava");
  const Image8 picture{32, 32, std::vector<uint8_t>(32 * 32 * 3, 90)};
  std::vector<PackItem> items(3);
  for (auto& item : items) {
    item.id = "an item";
    item.question = "what is it?";
  }
  items[1].images = {&picture};
  SampleQueries queries;
  queries.text_width = model->token_embedding().size(1);
  for (const bool together : {true, false}) {
    SampleBatch batch;
    batch.input = model->pack(together ? items : std::vector<PackItem>{items[0]});
    const auto found = queries.of(*model, batch);
    const int64_t width = found.size(1) - queries.text_width;
    ASSERT_GT(width, 0);
    for (int64_t b = 0; b < found.size(0); ++b) {
      const auto text = found[b].narrow(0, 0, queries.text_width), seen = found[b].narrow(0, queries.text_width, width);
      EXPECT_NEAR(text.norm().item<double>(), 1, 1e-5) << b;
      EXPECT_NEAR(seen.norm().item<double>(), b == 1 ? 1 : 0, b == 1 ? 1e-5 : 0) << b;
    }
  }
}

// Every stage but the last ends with an integration once the pool is full.
TEST(Pclr, PlansIntegrationWhereRanksAreDropped) {
  const auto method = std::move(make_methods("pclr", {{"pclr.pool", "2", "test"},
                                                      {"pclr.integration_epochs", "0.5", "test"},
                                                      {"pclr.integration_rate", "0.1", "test"}})[0]);
  for (int stage = 1; stage <= 4; ++stage) {
    std::vector<Phase> phases(2);
    phases[0].samples = 30;
    phases[1].samples = 7;
    phases[1].of_method = "other";
    PhasePlan plan;
    plan.stage = stage;
    plan.stages = 4;
    plan.learning_rate = 0.2;
    plan.steps = [](double epochs, int64_t samples) {
      return static_cast<int64_t>(epochs * static_cast<double>(samples));
    };
    method->plan(plan, phases);
    const bool integrates = stage == 2 || stage == 3;
    ASSERT_EQ(phases.size(), integrates ? 3u : 2u) << stage;
    if (!integrates) continue;
    EXPECT_EQ(phases[2].name, "integrate");
    EXPECT_EQ(phases[2].steps, 15);
    EXPECT_EQ(phases[2].trains, std::vector<std::string>{"adapters"});
    EXPECT_EQ(phases[2].task_weight, 0);
    EXPECT_NEAR(phases[2].learning_rate, 0.02, 1e-12);
  }
  // The authors freeze the projector.
  for (const auto& setting : method->native()) EXPECT_TRUE(setting.key != "projector" || setting.value == "frozen");
}

TEST(Pclr, LearnsNewRanksBesideFrozenOnes) {
  PclrCase one;
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  const auto a = one.made->bank->tensors_of("fresh")[0].second.clone(), keys = one.stored("fresh_keys").clone();
  EXPECT_EQ(one.made->bank->training() & one.made->bank->bit("shared"), 0u) << "nothing was dropped yet";
  one.end(1, first);
  one.begin(2, second);
  EXPECT_TRUE(one.stored("past_keys").narrow(0, 0, 4).equal(keys));
  EXPECT_EQ(one.number("past_count"), 4);
  EXPECT_TRUE(one.made->bank->tensors_of("past")[0].second.narrow(0, 0, 4).equal(a));
  for (const auto& [name, tensor] : one.made->bank->trained()) EXPECT_EQ(name.rfind("fresh:", 0), 0u) << name;
  // As many new ranks as a sample uses: no old one is needed.
  const auto training = one.made->pass(second.rows({0, 1}), 2, false);
  EXPECT_EQ(training.how.slots & one.made->bank->bit("past"), 0u);
  EXPECT_TRUE(training.given.at(one.made->bank->number("fresh")).equal(torch::ones({4})));
  // Neither projector nor tower is adapted; the scale is lora_alpha over the ranks in use.
  for (const auto& site : one.made->bank->layout("fresh").sites) {
    EXPECT_EQ(site.site.find("projector"), std::string::npos);
    EXPECT_EQ(site.scale, 2);
  }
  EXPECT_EQ(one.made->bank->layout("shared").sites[0].scale, 4);  // 8 over 2
}

class PclrActive : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PclrActive, ::testing::Values(6, 2), ::testing::PrintToStringParamName());

TEST_P(PclrActive, AnswersByTheNewRanksOrThePastOnes) {
  const int64_t active = GetParam();
  PclrCase one(MethodOptions{{"active", std::to_string(active)}});
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  const auto queries = one.stored("queries").to(at::kDouble);
  const auto batch = second.joined({&first, &second})->rows(range(0, 24));
  const auto routed = one.made->pass(batch, 2, true);
  const auto own = query_of(*one.made, batch);
  const auto gate = [&](const char* slot) { return routed.given.at(one.made->bank->number(slot)); };
  const auto filled = std::max<int64_t>(0, active - 4), alone = std::min<int64_t>(4, active);
  int64_t last_ones = 0;
  for (int64_t b = 0; b < 24; ++b) {
    double score[2];
    for (int64_t t = 0; t < 2; ++t) score[t] = key_score(own[b], queries[t]);
    if (std::abs(score[0] - score[1]) < 1e-5) continue;
    const bool last = score[1] > score[0];
    last_ones += last;
    // The 4 new ones, filled up with the best old ones, or old ones alone, of which there are 4.
    EXPECT_EQ(gate("fresh")[b].sum().item<int64_t>(), last ? 4 : 0) << b;
    EXPECT_EQ(gate("past")[b].sum().item<int64_t>(), last ? filled : alone) << b;
  }
  EXPECT_GT(last_ones, 0);
  EXPECT_LT(last_ones, 24);
}

class PclrModels : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Widths, PclrModels, ::testing::Values("", "internvl"),
                         [](const auto& model) { return model.param.empty() ? "Equal" : "Unequal"; });

// Old ranks are chosen by their keys: those with the highest scores, sample by sample. Pictures count by their width
// over that of texts, which are 24 and 32 on the second model.
TEST_P(PclrModels, TakesTheOldRanksWhoseKeysAreNearest) {
  PclrCase one(MethodOptions{{"active", "2"}}, GetParam());
  const int64_t text = one.made->model->token_embedding().size(1);
  const auto first = one.data(0), second = one.data(5);
  one.begin(1, *first);
  one.end(1, *first);
  one.begin(2, *second);
  auto generator = at::detail::createCPUGenerator(5);
  auto keys = one.stored("past_keys").clone();
  keys.narrow(0, 0, 4).copy_(at::randn({4, keys.size(1)}, generator, at::CPU(at::kFloat)));
  put_tensor(*one.made->method, "past_keys", keys);
  const auto batch = first->rows(range(0, 12));
  const auto own = query_of(*one.made, batch);
  const auto routed = one.made->pass(batch, 2, true);
  const auto past = routed.given.at(one.made->bank->number("past"));
  std::set<std::set<int64_t>> choices;
  for (int64_t b = 0; b < 12; ++b) {
    if (past[b].sum().item<int64_t>() != 2) continue;  // one of the last stage
    std::vector<std::pair<double, int64_t>> scores;
    for (int64_t k = 0; k < 4; ++k) scores.emplace_back(key_score(own[b], keys[k], text), k);
    std::sort(scores.rbegin(), scores.rend());
    const std::set<int64_t> best = {scores[0].second, scores[1].second};
    for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(past[b][k].item<double>(), best.count(k) > 0 ? 1 : 0) << b << " " << k;
    choices.insert(best);
  }
  EXPECT_FALSE(choices.empty());
}

// As released: all samples of a batch use the ranks with the largest sums of scores over it, in answering alone and in
// training beside the new ones, where these are too few.
TEST(Pclr, ABatchMayChooseItsRanksTogether) {
  for (const bool answering : {true, false}) {
    PclrCase one(MethodOptions{{"choice", "batch"}, {"active", answering ? "2" : "6"}});
    const auto first = one.made->data(0), second = one.made->data(5);
    one.begin(1, first);
    one.end(1, first);
    one.begin(2, second);
    auto keys = one.stored("past_keys").clone();
    keys.narrow(0, 0, 4).copy_(one.drawn({4, keys.size(1)}));
    put_tensor(*one.made->method, "past_keys", keys);
    const auto batch = second.joined({&first, &second})->rows(range(0, 24));
    const auto own = query_of(*one.made, batch), queries = one.stored("queries").to(at::kDouble);
    const auto best_two = [](const std::vector<double>& scores) {
      std::vector<int64_t> order = {0, 1, 2, 3};
      std::sort(order.begin(), order.end(),
                [&](int64_t a, int64_t b) { return scores[size_t(a)] > scores[size_t(b)]; });
      EXPECT_GT(scores[static_cast<size_t>(order[1])] - scores[static_cast<size_t>(order[2])], 1e-4);
      return std::set<int64_t>(order.begin(), order.begin() + 2);
    };
    std::vector<double> sums(4, 0.0);
    std::set<std::set<int64_t>> alone;
    for (int64_t b = 0; b < 24; ++b) {
      std::vector<double> scores;
      for (int64_t k = 0; k < 4; ++k) {
        scores.push_back(key_score(own[b], keys[k]));
        sums[static_cast<size_t>(k)] += scores.back();
      }
      alone.insert(best_two(scores));
    }
    ASSERT_GT(alone.size(), 1u) << "every sample would choose the same by itself";
    const auto together = best_two(sums);
    const auto past = one.made->pass(batch, 2, answering).given.at(one.made->bank->number("past"));
    int64_t chosen = 0;
    for (int64_t b = 0; b < 24; ++b) {
      if (answering && key_score(own[b], queries[1]) > key_score(own[b], queries[0])) continue;  // has new ranks enough
      ++chosen;
      for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(past[b][k].item<double>(), together.count(k) > 0 ? 1 : 0) << b << k;
    }
    EXPECT_GT(chosen, 0);
  }
}

// Standard normal numbers, so many of them: five standard errors of their mean and of their deviation.
void expect_standard(const torch::Tensor& numbers) {
  const auto n = static_cast<double>(numbers.numel());
  EXPECT_NEAR(numbers.mean().item<double>(), 0, 5 / std::sqrt(n));
  EXPECT_NEAR(numbers.square().mean().sqrt().item<double>(), 1, 5 / std::sqrt(2 * n));
}

// A ~ N(0, 1/d) and B = 0, whatever the stage before has left there.
TEST(Pclr, NewRanksBeginAtRandomWhileNoneWereDropped) {
  PclrCase one(MethodOptions{{"sites", "all"}});
  const auto first = one.made->data(0), second = one.made->data(5);
  one.learn();
  torch::Tensor earlier;
  for (int stage = 1; stage <= 2; ++stage) {
    one.enter(stage, stage == 1 ? first : second);
    std::vector<torch::Tensor> drawn;
    std::set<int64_t> widths;
    for (const auto& site : one.made->bank->layout("fresh").sites) {
      const auto& expert = one.made->bank->at("fresh", site.site).experts[0];
      widths.insert(expert.a.size(1));
      drawn.push_back(expert.a.detach().flatten() * std::sqrt(static_cast<double>(expert.a.size(1))));
      EXPECT_EQ(expert.b.abs().max().item<double>(), 0) << site.site;
      expect_standard(drawn.back());
    }
    EXPECT_EQ(widths, (std::set<int64_t>{32, 64}));
    const auto all = at::cat(drawn);
    expect_standard(all);
    if (stage == 2) expect_standard((all - earlier) / std::sqrt(2.0));  // drawn anew
    earlier = all;
    one.learn();
    one.end(stage, stage == 1 ? first : second);
  }
}

// After a compression they are copies of the old ranks that the stage's mean query scores highest, the best first.
TEST(Pclr, NewRanksThenBeginAsTheBestOldOnes) {
  PclrCase one(MethodOptions{{"pool", "3"}});
  for (int stage = 1; stage <= 3; ++stage) {
    const auto set = one.made->data(static_cast<size_t>(stage));
    one.begin(stage, set);
    if (stage == 3) one.integrate(stage, set);
    one.end(stage, set);
  }
  for (const char* name : {"past_keys", "fresh_keys"})
    put_tensor(*one.made->method, name, one.drawn(one.stored(name).sizes()));
  const auto fourth = one.made->data(5);
  one.enter(4, fourth);
  ASSERT_EQ(one.number("past_count"), 8);
  ASSERT_EQ(one.number("fresh_count"), 4);
  const auto mean = query_of(*one.made, fourth.rows(range(0, fourth.size()))).mean(0);
  const auto keys = one.stored("past_keys");
  std::vector<std::pair<double, int64_t>> scores;
  for (int64_t k = 0; k < 8; ++k) scores.emplace_back(key_score(mean, keys[k]), k);
  std::sort(scores.rbegin(), scores.rend());
  for (size_t i = 0; i < 7; ++i) EXPECT_GT(scores[i].first - scores[i + 1].first, 1e-4) << i;
  for (const auto& site : one.made->bank->layout("fresh").sites) {
    const auto& fresh = one.made->bank->at("fresh", site.site).experts[0];
    const auto& past = one.made->bank->at("past", site.site).experts[0];
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t k = 0; k < 8; ++k) {
        const bool copied = k == scores[static_cast<size_t>(i)].second;
        EXPECT_EQ(fresh.a[i].equal(past.a[k]), copied) << i << " " << k;
        EXPECT_EQ(fresh.b.select(1, i).equal(past.b.select(1, k)), copied) << i << " " << k;
      }
  }
}

// y = W x + (a / S) sum over the shared ranks + (a / R) sum over those whose gate is open, rank by rank.
TEST(Pclr, ASiteAddsOpenRanksOverRAndSharedOnesOverTheirNumber) {
  PclrCase one(MethodOptions{{"active", "3"}, {"shared", "5"}});
  one.made->randomise(0.3);
  const auto& bank = *one.made->bank;
  const auto fresh = torch::tensor({{1.0, 0.0, 1.0, 1.0}, {0.0, 0.0, 0.0, 0.0}}),
             past = torch::tensor({{0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.0, 1.0, 0.0, 1.0, 1.0, 0.0}});
  const GivenWeights given = {{bank.number("fresh"), fresh}, {bank.number("past"), past}};
  const std::vector<std::pair<std::string, torch::Tensor>> gates = {
      {"fresh", fresh}, {"past", past}, {"shared", torch::ones({2, 5})}};
  at::NoGradGuard no_grad;
  int64_t sites = 0;
  for (const auto& site : one.made->model->sites()) {
    if (site.part == SitePart::projector) continue;
    ++sites;
    const auto x = torch::randn({2, 3, site.linear->weight.size(1)});
    auto expected = at::linear(x, site.linear->weight).to(at::kDouble);
    for (const auto& [slot, gate] : gates) {
      const auto& expert = one.made->bank->at(slot, site.name).experts[0];
      const double over = slot == "shared" ? 5 : 3;  // lora_alpha is 8
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t i = 0; i < gate.size(1); ++i)
          for (int64_t t = 0; t < 3 && gate[b][i].item<double>() == 1; ++t)
            expected[b][t] += expert.b.select(1, i) * (expert.a[i].dot(x[b][t]) * (8 / over));
    }
    Pass pass;
    pass.slots = bank.bit("fresh") | bank.bit("past") | bank.bit("shared");
    pass.given = &given;
    for (const bool answering : {true, false}) {
      pass.answering = answering;
      EXPECT_TRUE(at::allclose((*site.linear)(x, pass).to(at::kDouble), expected, 1e-4, 1e-4)) << site.name;
    }
  }
  EXPECT_EQ(sites, 4);
}

}  // namespace
}  // namespace asr
