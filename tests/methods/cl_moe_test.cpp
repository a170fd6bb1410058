// CL-MoE: a dense mixture in training, counts of the best two experts of every token, the blend by role after a stage,
// and b G(x) + (1 - b) G^T(t) in answers. What the linears read is recorded here; all that follows from it is
// recomputed token by token.
#include <cmath>

#include "tests/methods/every_kind.h"
#include "tests/methods/held_state.h"
#include "tests/methods/method_case.h"

namespace asr {
namespace {

// What linears read in a pass.
struct ReadStates final : InputObserver {
  std::map<const Linear*, torch::Tensor> of;
  void see(const Linear& linear, const torch::Tensor& x) override { of[&linear] = x.detach().to(at::kDouble); }
};

class ClMoeCase : public MethodCase {
 public:
  explicit ClMoeCase(std::vector<Assignment> options = {}, const std::string& kind = "tiny")
      : ClMoeCase(std::make_unique<TemporaryFolder>(), std::move(options), kind) {}

  std::vector<double> softmax_at(const torch::Tensor& router, const torch::Tensor& token) const {
    std::vector<double> out;
    const auto scores = router.detach().to(at::kDouble).mv(token);
    double sum = 0;
    for (int64_t e = 0; e < scores.numel(); ++e) {
      out.push_back(std::exp(scores[e].item<double>()));
      sum += out.back();
    }
    for (double& value : out) value /= sum;
    return out;
  }

  // Calls visit(sample, weights) for every real token at every linear of the language model; `answers`: those too.
  template <class Visit>
  void each_token(const SampleBatch& batch, bool answers, const Visit& visit) {
    at::NoGradGuard no_grad;
    ReadStates states;
    Pass how;
    how.slots = bank->training();
    how.observer = &states;
    model->forward(batch.input, how, Want{});
    for (const auto& site : model->sites()) {
      if (site.part == SitePart::projector || site.part == SitePart::cross_v) continue;
      const auto& x = states.of.at(site.linear);
      const auto& router = site.linear->slots[0].training.router;
      const int64_t shift = x.size(1) - batch.input.ids.size(1);
      for (int64_t b = 0; b < x.size(0); ++b)
        for (int64_t t = 0; t < x.size(1); ++t) {
          const bool text = t >= shift;
          if (text && !batch.input.mask[b][t - shift].item<bool>()) continue;
          if (text && !answers && batch.input.labels[b][t - shift].item<int64_t>() >= 0) continue;
          visit(b, softmax_at(router, x[b][t]));
        }
    }
  }
  std::vector<std::vector<double>> mean_weights(const SampleBatch& batch, bool answers) {
    std::vector<std::vector<double>> out(static_cast<size_t>(batch.size()), std::vector<double>(4));
    std::vector<double> tokens(static_cast<size_t>(batch.size()));
    each_token(batch, answers, [&](int64_t b, const std::vector<double>& weights) {
      const auto row = static_cast<size_t>(b);
      for (size_t e = 0; e < 4; ++e) out[row][e] += weights[e];
      ++tokens[row];
    });
    for (size_t b = 0; b < out.size(); ++b)
      for (double& value : out[b]) value /= tokens[b];
    return out;
  }

  void begin(int stage, const SampleSet& set) {
    auto context = stage_context(stage, set);
    method->begin_stage(context);
    method->before_stage(context);
  }
  void step(const SampleBatch& batch, int64_t number) {
    losses(batch);
    const Phase phase;
    GradientContext context{1, number, phase, *bank, trained};
    method->after_step(context);
  }

 private:
  ClMoeCase(std::unique_ptr<TemporaryFolder> folder, std::vector<Assignment> options, const std::string& kind)
      : MethodCase("cl-moe", options, written(*folder, kind)), folder_(std::move(folder)) {
    lay_out(1);
    randomise(0.5);
  }
  static std::string written(const TemporaryFolder& folder, const std::string& kind) {
    write_small_model(folder / "model", kind);
    return folder / "model";
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

torch::Tensor rows_of(const std::vector<std::vector<double>>& rows) {
  std::vector<torch::Tensor> out;
  for (const auto& row : rows) out.push_back(torch::tensor(row, at::kDouble));
  return at::stack(out);
}

TEST(ClMoe, CountsTheBestTwoOfEveryRealToken) {
  for (const std::string kind : {"tiny", "tiny_cross"}) {
    ClMoeCase fixture({{"cl-moe.count_every", "2", "test"}}, kind);
    const auto set = fixture.data();
    const auto batch = set.rows({0, 3, 5}), other = set.rows({1, 2});
    fixture.begin(1, set);
    fixture.step(batch, 0);
    fixture.step(other, 1);  // not counted
    fixture.step(batch, 2);
    std::vector<double> expected(4);
    double tokens = 0;
    fixture.each_token(batch, true, [&](int64_t, const std::vector<double>& weights) {
      std::vector<size_t> order = {0, 1, 2, 3};
      std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weights[a] > weights[b]; });
      expected[order[0]] += 2;  // two steps
      expected[order[1]] += 2;
      ++tokens;
    });
    ASSERT_GT(tokens, 100);
    const auto counts = held_tensor(*fixture.method, "counts");
    // A token whose second and third weights agree to float32's rounding may fall either way.
    for (int64_t e = 0; e < 4; ++e) EXPECT_NEAR(counts[e].item<double>(), expected[static_cast<size_t>(e)], 4) << kind;
    auto context = fixture.stage_context(1, set);
    fixture.method->after_stage(context);
    const auto weights = held_tensor(*fixture.method, "weights");
    ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{1, 4}));
    for (int64_t e = 0; e < 4; ++e)
      EXPECT_NEAR(weights[0][e].item<double>(), counts[e].item<double>() / (4 * tokens), 1e-12);
    EXPECT_FALSE(held_tensor(*fixture.method, "counts").defined());
  }
}

// The stage before used experts 0 and 1, this one uses 1 and 2: expert 0 is the old one's alone.
TEST(ClMoe, BlendsEveryExpertByItsRole) {
  struct Rule {
    std::string rule, role_experts, momentum;
    std::vector<double> stays;  // of each expert's old value
  };
  // The last is the released blend: its roles are nobody's, and it reaches no parameter. Without either of both options
  // it would be another one.
  for (const auto& rule :
       {Rule{"code", "2", "0.7", {0.3, 0.7, 0.7, 0.7}}, Rule{"inverted", "2", "0.7", {0.7, 0.3, 0.3, 0.3}},
        Rule{"code", "8", "0.7", {0.7, 0.7, 0.7, 0.7}}, Rule{"inverted", "8", "0.7", {0.3, 0.3, 0.3, 0.3}},
        Rule{"code", "2", "0", {1, 0, 0, 0}}, Rule{"code", "8", "0", {0, 0, 0, 0}}}) {
    std::vector<Assignment> options = {{"cl-moe.role_rule", rule.rule, "test"},
                                       {"cl-moe.role_experts", rule.role_experts, "test"}};
    if (rule.momentum != "0.7") options.push_back({"cl-moe.momentum", rule.momentum, "test"});
    ClMoeCase fixture(options);
    const bool as_released = rule.role_experts == "8" && rule.momentum == "0";
    const auto set = fixture.data();
    put_tensor(*fixture.method, "weights", rows_of({{0.5, 0.3, 0.15, 0.05}}));
    fixture.begin(2, set);
    std::map<std::string, torch::Tensor> old, trained;
    for (const auto& [name, tensor] : fixture.bank->tensors()) {
      old[name] = tensor.detach().clone();
      at::NoGradGuard no_grad;
      auto value = tensor;
      value.mul_(-1.5).add_(0.25);  // what training made of it
      trained[name] = tensor.detach().clone();
    }
    put_tensor(*fixture.method, "counts", torch::tensor({3.0, 40.0, 50.0, 7.0}, at::kDouble));
    auto context = fixture.stage_context(2, set);
    fixture.method->after_stage(context);
    int experts = 0, others = 0;
    for (const auto& [name, tensor] : fixture.bank->tensors()) {
      const bool expert = name.find("projector") == std::string::npos && name.find("router") == std::string::npos;
      ++(expert ? experts : others);
      if (!expert || as_released) {
        EXPECT_TRUE(tensor.equal(trained[name])) << name;
        continue;
      }
      const auto number = static_cast<size_t>(name[name.rfind(".weight") - 1] - '0');
      const double stays = rule.stays[number];
      const auto expected = old[name].to(at::kDouble) * stays + trained[name].to(at::kDouble) * (1 - stays);
      EXPECT_TRUE(tensor.detach().to(at::kDouble).allclose(expected, 1e-5, 1e-6)) << rule.rule << " " << name;
    }
    EXPECT_EQ(experts, 2 * 2 * 2 * 4);  // factors, q and v, layers, experts
    EXPECT_EQ(others, 2 * 2 + 2 * 2);   // the projector's pairs, a router each
    EXPECT_FALSE(held_tensor(*fixture.method, "before").defined());
  }
}

TEST(ClMoe, TheFirstStageIsNotBlended) {
  ClMoeCase fixture;
  const auto set = fixture.data();
  fixture.begin(1, set);
  fixture.step(set.rows({0, 1}), 0);
  std::vector<torch::Tensor> trained;
  for (const auto& [name, tensor] : fixture.bank->tensors()) trained.push_back(tensor.detach().clone());
  auto context = fixture.stage_context(1, set);
  fixture.method->after_stage(context);
  for (size_t i = 0; i < trained.size(); ++i) EXPECT_TRUE(fixture.bank->tensors()[i].second.equal(trained[i]));
}

// y = W x + s sum_i (b G_i(x) + (1 - b) w_i) B_i A_i x, with s = alpha over the whole rank; w: none in training.
torch::Tensor mixed(const Linear& linear, const torch::Tensor& x, const torch::Tensor& given, double share) {
  auto out = torch::zeros({x.size(0), x.size(1), linear.weight.size(0)}, at::kDouble);
  const auto& slot = linear.slots[0];
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t t = 0; t < x.size(1); ++t) {
      const auto token = x[b][t].to(at::kDouble);
      const auto routed = slot.training.router.to(at::kDouble).mv(token).softmax(0);
      auto y = linear.weight.to(at::kDouble).mv(token);
      if (linear.bias.defined()) y = y + linear.bias.to(at::kDouble);
      for (int64_t e = 0; e < routed.numel(); ++e) {
        const auto& expert = slot.experts[static_cast<size_t>(e)];
        const auto weight = share < 1 ? routed[e] * share + given[b][e].to(at::kDouble) * (1 - share) : routed[e];
        y = y + expert.b.to(at::kDouble).mv(expert.a.to(at::kDouble).mv(token)) * weight * 2;
      }
      out[b][t].copy_(y);
    }
  return out;
}

TEST(ClMoe, AnswersMixTheRouterWithTheStage) {
  ClMoeCase fixture({{"cl-moe.router_share", "0.3", "test"}});
  at::NoGradGuard no_grad;
  const GivenWeights given = {{0, torch::tensor({{0.4, 0.3, 0.2, 0.1}, {0.0, 0.1, 0.4, 0.5}})}};
  for (const auto& site : fixture.model->sites()) {
    if (site.part == SitePart::projector) continue;
    ASSERT_EQ(site.linear->slots[0].experts.size(), 4u);
    EXPECT_EQ(site.linear->slots[0].experts[0].a.size(0), 1);  // lora_rank 4 over four experts
    const auto x = torch::randn({2, 3, site.linear->weight.size(1)});
    Pass pass;
    pass.slots = fixture.bank->training();
    EXPECT_TRUE((*site.linear)(x, pass).to(at::kDouble).allclose(mixed(*site.linear, x, {}, 1), 1e-4, 1e-4));
    pass.answering = true;
    pass.given = &given;
    EXPECT_TRUE((*site.linear)(x, pass).to(at::kDouble).allclose(mixed(*site.linear, x, given.at(0), 0.3), 1e-4, 1e-4));
  }
  // The projector is one plain pair of the whole rank.
  const auto& projector = fixture.bank->at(kTrainedSlot, "projector.in");
  ASSERT_EQ(projector.experts.size(), 1u);
  EXPECT_EQ(projector.experts[0].a.size(0), 4);
}

TEST(ClMoe, ASampleIsAnsweredByTheStageNearestToItsPrompt) {
  for (const std::string kind : {"tiny", "tiny_cross"}) {
    ClMoeCase fixture({}, kind);
    const auto set = fixture.data();
    const auto batch = set.rows({0, 3, 5, 7});
    const auto prompts = fixture.mean_weights(batch, false), texts = fixture.mean_weights(batch, true);
    // The answer moves the mean; a stage that is exactly there would win if it were read.
    put_tensor(*fixture.method, "weights", rows_of({texts[0], prompts[0], prompts[2], {0.9, 0.1, 0, 0}}));
    const auto given = fixture.pass(batch, 4, true).given.at(0);
    ASSERT_EQ(given.sizes(), (std::vector<int64_t>{4, 4}));
    const auto stages = held_tensor(*fixture.method, "weights");
    for (int64_t b = 0; b < 4; ++b) {
      int64_t best = 0;
      double least = 1e9;
      for (int64_t t = 0; t < 4; ++t) {
        double far = 0;
        for (int64_t e = 0; e < 4; ++e)
          far += std::pow(prompts[static_cast<size_t>(b)][static_cast<size_t>(e)] - stages[t][e].item<double>(), 2);
        if (far < least) {
          least = far;
          best = t;
        }
      }
      EXPECT_TRUE(given[b].to(at::kDouble).allclose(stages[best], 1e-6, 1e-7)) << kind << " " << b;
      if (b % 2 == 0) {
        EXPECT_EQ(best, 1 + b / 2);
      }
    }
  }
}

TEST(ClMoe, AnAverageOrTheTrueStageMayAnswerInstead) {
  const auto weights = rows_of({{0.4, 0.3, 0.2, 0.1}, {0.0, 0.1, 0.4, 0.5}});
  ClMoeCase average({{"cl-moe.stage", "average", "test"}});
  put_tensor(*average.method, "weights", weights);
  auto batch = average.data().rows({0, 1, 2});
  const auto mean = average.pass(batch, 2, true).given.at(0);
  EXPECT_TRUE(mean.to(at::kDouble).allclose(torch::tensor({0.2, 0.2, 0.3, 0.3}, at::kDouble), 1e-6, 1e-7));

  ClMoeCase oracle({{"cl-moe.stage", "oracle", "test"}});
  put_tensor(*oracle.method, "weights", weights);
  batch.info[0].stage = 2;
  batch.info[1].stage = 1;
  batch.info[2].stage = 2;
  const auto chosen = oracle.pass(batch, 2, true).given.at(0).to(at::kDouble);
  for (int64_t b = 0; b < 3; ++b)
    EXPECT_TRUE(chosen[b].allclose(weights[batch.info[static_cast<size_t>(b)].stage - 1], 1e-6, 1e-7)) << b;
  batch.info[1].stage = 0;
  EXPECT_CONTAINS(message_of([&] { oracle.pass(batch, 2, true); }), "cl-moe.stage: oracle needs samples whose stage");
  // Training needs no weights of stages, nor do answers by the router alone.
  EXPECT_TRUE(average.pass(batch, 2, false).given.empty());
  ClMoeCase alone({{"cl-moe.router_share", "1", "test"}});
  EXPECT_TRUE(alone.pass(batch, 2, true).given.empty());
}

TEST(ClMoe, RefusesWhatCannotBe) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "cl-moe");
  list.push_back({"cl-moe.experts", "3", "test"});
  EXPECT_CONTAINS(message_of([&] { run_small(list); }), "cl-moe.experts=3 does not divide lora_rank=16");
  EXPECT_CONTAINS(message_of([&] { run_small(small_run(folder / "model", folder / "two", "o-lora+cl-moe")); }),
                  "methods o-lora and cl-moe both lay out the adapters");
}

TEST(ClMoe, RunsOnEveryKindOfModelWithBothHeads) {
  expect_runs_on_every_kind("cl-moe");
}

}  // namespace
}  // namespace asr
