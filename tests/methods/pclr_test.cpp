// PCLR: what a query chooses, what a stage may change, compression and integration.
#include <cmath>
#include <set>

#include "tests/methods/held_state.h"
#include "tests/methods/method_case.h"
#include "train/kept_state.h"

namespace asr {
namespace {

// Stages of the world under the method, without a trainer.
struct PclrCase {
  TemporaryFolder folder;
  std::unique_ptr<MethodCase> made;

  explicit PclrCase(std::vector<Assignment> options = {}) {
    write_small_model(folder / "model");
    for (auto& option : options) option.key = "pclr." + option.key;
    options.push_back({"pclr.pool", "2", "test"});
    made = std::make_unique<MethodCase>("pclr", options, folder / "model");
    made->lay_out(1);
  }
  torch::Tensor stored(const std::string& name) {
    StateHolder holder("");
    made->method->state(holder);
    for (const auto& item : holder.items)
      if (item.name == name) return item.tensor;
    return {};
  }
  int64_t number(const std::string& name) { return stored(name).item<int64_t>(); }
  // Numbers in the fresh ranks, as if they had been trained.
  void learn() {
    at::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(++seed));
    for (const auto& [name, tensor] : made->bank->tensors_of("fresh")) {
      auto value = tensor;
      value.copy_(at::randn(tensor.sizes(), generator, at::CPU(at::kFloat)) * 0.4);
    }
  }
  void begin(int stage, const SampleSet& set) {
    auto context = made->stage_context(stage, set);
    made->method->begin_stage(context);
    made->method->before_stage(context);
    learn();
  }
  void end(int stage, const SampleSet& set) {
    auto context = made->stage_context(stage, set);
    made->method->after_stage(context);
  }
  void integrate(int stage, const SampleSet& set) {
    auto context = made->stage_context(stage, set);
    Phase phase;
    phase.name = "integrate";
    made->method->begin_phase(context, phase);
  }
  int seed = 0;
};

// Mean token embedding and first state of the tower, each of length 1, in double.
torch::Tensor query_of(MethodCase& fixture, const SampleBatch& batch) {
  at::NoGradGuard no_grad;
  std::vector<torch::Tensor> rows;
  const auto table = fixture.model->token_embedding().to(at::kDouble);
  const auto tower =
      batch.input.features.defined() ? batch.input.features : fixture.model->encode_images(batch.input.pixels);
  for (int64_t b = 0; b < batch.size(); ++b) {
    auto text = torch::zeros({table.size(1)}, at::kDouble);
    for (int64_t t = 0; t < batch.input.ids.size(1); ++t)
      if (batch.input.question[b][t].item<bool>()) text += table[batch.input.ids[b][t].item<int64_t>()];
    const auto picture = tower[b][0].to(at::kDouble);
    rows.push_back(at::cat({text / text.norm(), picture / picture.norm()}));
  }
  return at::stack(rows);
}

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

TEST(Pclr, AlignmentIsTheCosineDistanceOfNewKeys) {
  PclrCase one({{"alignment", "0.7", "test"}});
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
  PclrCase one({{"alignment", "1", "test"}});
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
  PclrCase one({{"active", std::to_string(active), "test"}});
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
    for (int64_t t = 0; t < 2; ++t) {
      const auto cosine = [&](int64_t begin, int64_t width) {
        const auto q = own[b].narrow(0, begin, width), k = queries[t].narrow(0, begin, width);
        return ((q * k).sum() / (q.norm() * k.norm())).item<double>();
      };
      score[t] = cosine(0, 32) + static_cast<double>(own.size(1) - 32) / 32 * cosine(32, own.size(1) - 32);
    }
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

// Old ranks are chosen by their keys: those with the highest scores, sample by sample.
TEST(Pclr, TakesTheOldRanksWhoseKeysAreNearest) {
  PclrCase one({{"active", "2", "test"}});
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  auto generator = at::detail::createCPUGenerator(5);
  auto keys = one.stored("past_keys").clone();
  keys.narrow(0, 0, 4).copy_(at::randn({4, keys.size(1)}, generator, at::CPU(at::kFloat)));
  put_tensor(*one.made->method, "past_keys", keys);
  const auto batch = first.rows(range(0, 12));
  const auto own = query_of(*one.made, batch);
  const auto routed = one.made->pass(batch, 2, true);
  const auto past = routed.given.at(one.made->bank->number("past"));
  std::set<std::set<int64_t>> choices;
  for (int64_t b = 0; b < 12; ++b) {
    if (past[b].sum().item<int64_t>() != 2) continue;  // one of the last stage
    std::vector<std::pair<double, int64_t>> scores;
    for (int64_t k = 0; k < 4; ++k) {
      const auto cosine = [&](int64_t begin, int64_t width) {
        const auto q = own[b].narrow(0, begin, width), key = keys[k].to(at::kDouble).narrow(0, begin, width);
        return ((q * key).sum() / (q.norm() * key.norm())).item<double>();
      };
      const int64_t picture = own.size(1) - 32;
      scores.emplace_back(cosine(0, 32) + static_cast<double>(picture) / 32 * cosine(32, picture), k);
    }
    std::sort(scores.rbegin(), scores.rend());
    const std::set<int64_t> best = {scores[0].second, scores[1].second};
    for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(past[b][k].item<double>(), best.count(k) > 0 ? 1 : 0) << b << " " << k;
    choices.insert(best);
  }
  EXPECT_FALSE(choices.empty());
}

// P(stage) grows with the root of what was last seen to diverge: 8.9999 and 0.9999 are three to one.
TEST(Pclr, DrawsStagesByTheRootOfTheirDivergence) {
  PclrCase one;
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  one.integrate(2, second);
  Phase phase;
  phase.name = "integrate";
  GradientContext after{2, 0, phase, *one.made->bank, one.made->trained};
  int drawn_first = 0;
  for (int64_t i = 0; i < 400; ++i) {
    put_tensor(*one.made->method, "last_divergence", torch::tensor({8.9999, 0.9999}, at::kDouble));
    put_tensor(*one.made->method, "integrated", torch::tensor({i}, at::kLong));
    one.made->method->after_step(after);  // which notes a divergence of 0 for the stage that was drawn
    drawn_first += one.stored("last_divergence")[0].item<double>() == 0;
  }
  EXPECT_GT(drawn_first, 270);  // of 400, 300 wanted with a deviation of 9; without the root it would be 360
  EXPECT_LT(drawn_first, 330);
}

TEST(Pclr, CompressionDropsEveryMthRankAndMovesKeys) {
  PclrCase one;
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  std::map<std::string, torch::Tensor> before;
  for (const auto& [name, tensor] : one.made->bank->tensors()) before[name] = tensor.clone();
  const auto keys = one.stored("past_keys").clone(), queries = one.stored("queries").to(at::kDouble);
  one.integrate(2, second);
  EXPECT_EQ(one.number("past_count"), 2);  // every second of 4
  EXPECT_EQ(one.number("fresh_count"), 2);
  for (const char* slot : {"past", "fresh"})
    for (const auto& [name, tensor] : one.made->bank->tensors_of(slot)) {
      const int64_t along = name.find("lora_A") != std::string::npos ? 0 : 1;
      for (int64_t i = 0; i < 2; ++i) EXPECT_TRUE(tensor.select(along, i).equal(before[name].select(along, 2 * i)));
      EXPECT_EQ(tensor.narrow(along, 2, tensor.size(along) - 2).abs().max().item<double>(), 0) << name;
    }
  // Both old ranks are chosen by the first stage's query, and by the second's to fill up: their keys move to both.
  for (int64_t i = 0; i < 2; ++i) {
    const auto sum = keys[2 * i].to(at::kDouble) + queries[0] + queries[1];
    const auto text = sum.narrow(0, 0, 32);
    EXPECT_LT(
        (one.stored("past_keys")[i].narrow(0, 0, 32).to(at::kDouble) - text / text.norm()).abs().max().item<double>(),
        1e-5);
  }
  // All three slots learn now; what they were is there until the stage ends.
  EXPECT_EQ(one.made->bank->trained().size(), one.made->bank->tensors().size());
  EXPECT_EQ(one.number("copies"), static_cast<int64_t>(one.made->bank->tensors().size()));
  one.end(2, second);
  EXPECT_EQ(one.number("copies"), 0);
  EXPECT_FALSE(one.stored("old_gates").defined());
  // The next stage's ranks begin as copies of old ones, and the shared ones take part.
  auto context = one.made->stage_context(3, first);
  one.made->method->begin_stage(context);
  EXPECT_EQ(one.number("past_count"), 4);
  const auto fresh = one.made->bank->tensors_of("fresh"), past = one.made->bank->tensors_of("past");
  for (int64_t i = 0; i < 4; ++i) {
    bool found = false;
    for (int64_t j = 0; j < 4; ++j) found = found || fresh[0].second[i].equal(past[0].second[j]);
    EXPECT_TRUE(found) << i;
  }
  EXPECT_NE(one.made->bank->training() & one.made->bank->bit("shared"), 0u);
}

TEST(Pclr, IntegrationIsTheDivergenceFromTheFullPool) {
  PclrCase one;
  const auto first = one.made->data(0), second = one.made->data(5);
  one.begin(1, first);
  one.end(1, first);
  one.begin(2, second);
  const auto batch = second.rows(range(0, 4));
  Want want;
  want.loss = false;
  want.all_logits = true;
  {
    // The shared ranks say something already; they are the student's, not the teacher's, who has dropped none yet.
    at::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(23);
    for (auto& [name, tensor] : one.made->bank->tensors_of("shared"))
      tensor.copy_(at::randn(tensor.sizes(), generator, at::CPU(at::kFloat)) * 0.15);
  }
  bool shared = false;
  const auto logits = [&](const std::vector<double>& fresh, const std::vector<double>& past) {
    Pass pass;
    pass.slots = one.made->bank->bit("fresh") | one.made->bank->bit("past");
    if (shared) pass.slots |= one.made->bank->bit("shared");
    const GivenWeights given = {{one.made->bank->number("fresh"), torch::tensor(fresh, at::kFloat)},
                                {one.made->bank->number("past"), torch::tensor(past, at::kFloat)}};
    pass.given = &given;
    return one.made->model->forward(batch.input, pass, want).all_logits.to(at::kDouble).detach();
  };
  ASSERT_EQ(one.made->bank->layout("past").sites[0].rank, 6);
  const auto old_first = logits({0, 0, 0, 0}, {1, 1, 1, 1, 0, 0}), old_last = logits({1, 1, 1, 1}, {0, 0, 0, 0, 0, 0});
  one.integrate(2, second);
  shared = true;
  // Compressed, the first stage has two old ranks, the last its two and both old ones.
  const auto new_first = logits({0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}), new_last = logits({1, 1, 0, 0}, {1, 1, 0, 0, 0, 0});
  const auto expected = [&](const torch::Tensor& teacher, const torch::Tensor& student) {
    double out = 0;
    for (int64_t b = 0; b < 4; ++b) {
      double sum = 0, count = 0;
      for (int64_t t = 0; t < teacher.size(1); ++t) {
        if (!batch.input.mask[b][t].item<bool>()) continue;
        const auto places =
            std::get<1>(teacher[b][t].sort(0, true)).narrow(0, 0, std::min<int64_t>(100, teacher.size(2)));
        const auto p = (teacher[b][t].index_select(0, places) / 2).softmax(0);
        const auto q = (student[b][t].index_select(0, places) / 2).softmax(0);
        sum += (p * (p.log() - q.log())).sum().item<double>();
        ++count;
      }
      out += sum / count / 4;
    }
    return out;
  };
  const double of_first = expected(old_first, new_first), of_last = expected(old_last, new_last);
  EXPECT_GT(std::abs(of_first - of_last), 1e-4) << of_first << " " << of_last;
  Phase phase;
  phase.name = "integrate";
  std::map<std::string, torch::Tensor> log;
  std::vector<std::pair<torch::Tensor, double>> losses;
  const std::vector<int64_t> rows;
  Share share{one.made->alone};
  const Output nothing;
  StepContext step{one.made->trained,
                   *one.made->model,
                   *one.made->bank,
                   *one.made->objective,
                   phase,
                   batch,
                   rows,
                   share,
                   nothing,
                   {},
                   log,
                   losses,
                   -1,
                   1};
  GradientContext after{2, 0, phase, *one.made->bank, one.made->trained};
  std::set<int64_t> drawn;
  for (int i = 0; i < 12; ++i) {
    losses.clear();
    const auto last = one.stored("last_divergence").clone();
    one.made->method->add_losses(step);
    ASSERT_EQ(losses.size(), 1u);
    const double found = losses[0].first.item<double>();
    const int64_t stage = std::abs(found - of_first) < std::abs(found - of_last) ? 0 : 1;
    EXPECT_NEAR(found, stage == 0 ? of_first : of_last, 2e-5) << i;
    one.made->method->after_step(after);
    const auto now = one.stored("last_divergence");
    EXPECT_NEAR(now[stage].item<double>(), found, 1e-9);
    EXPECT_EQ(now[1 - stage].item<double>(), last[1 - stage].item<double>());
    drawn.insert(stage);
  }
  EXPECT_EQ(drawn.size(), 2u);
  // A stage is drawn by the root of how far apart the pools were there last: a hundredth against a hundred.
  for (int i = 0; i < 8; ++i) {
    const bool first_one = i % 2 == 0;
    put_tensor(*one.made->method, "last_divergence",
               torch::tensor({first_one ? 1e4 : 0.0, first_one ? 0.0 : 1e4}, at::kDouble));
    losses.clear();
    one.made->method->add_losses(step);
    EXPECT_NEAR(losses[0].first.item<double>(), first_one ? of_first : of_last, 2e-5) << i;
    one.made->method->after_step(after);
  }
  losses[0].first.backward();  // the copies are out of the way again: it reaches the ranks in place
  for (const char* slot : {"past", "shared"})
    EXPECT_TRUE(one.made->bank->tensors_of(slot)[0].second.grad().defined()) << slot;
}

}  // namespace
}  // namespace asr
