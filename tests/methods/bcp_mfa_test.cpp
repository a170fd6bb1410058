// BCP-MFA: the geometry of its prototypes, its soft targets, the transport between features and prototypes and the
// orthogonality of what is learnt; each against numbers made here by hand.
#include <cmath>

#include "methods/terms/balanced_objective.h"
#include "tests/methods/method_case.h"
#include "tests/methods/recomputation.h"

namespace asr {
namespace {

using Table = std::vector<std::vector<double>>;

std::vector<std::string> some_answers(size_t count) {
  std::vector<std::string> out;
  for (const std::string color : {"red", "green", "blue", "yellow", "purple", "orange", "cyan", "brown"})
    for (const std::string shape : {"circle", "square", "triangle", "cross", "star", "diamond", "ring", "heart"})
      if (out.size() < count) out.push_back(color + " " + shape);
  return out;
}

torch::Tensor rotation_of(const Objective& objective) {
  return objective.parameters().at(0).second.detach().to(at::kDouble);
}

// The plain form of the iteration, with scaling factors in place of their logarithms.
struct PlainTransport {
  Table plan;
  double value = 0;
  int64_t iterations = 0;
};
PlainTransport transport_by_hand(const Table& cost, const SinkhornOptions& options) {
  const size_t n = cost.size(), m = cost[0].size();
  std::vector<double> a(n, 1), b(m, 1);
  PlainTransport out;
  while (out.iterations < options.iterations) {
    ++out.iterations;
    double moved = 0;
    for (size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (size_t j = 0; j < m; ++j) sum += std::exp(-cost[i][j] / options.epsilon) * b[j];
      const double next = 1.0 / static_cast<double>(n) / sum;
      moved += options.epsilon * std::abs(std::log(next) - std::log(a[i]));
      a[i] = next;
    }
    for (size_t j = 0; j < m; ++j) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += std::exp(-cost[i][j] / options.epsilon) * a[i];
      b[j] = 1.0 / static_cast<double>(m) / sum;
    }
    if (moved < options.stop) break;
  }
  out.plan = cost;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) {
      out.plan[i][j] = a[i] * std::exp(-cost[i][j] / options.epsilon) * b[j];
      out.value += out.plan[i][j] * cost[i][j];
    }
  return out;
}

Table table_of(const torch::Tensor& t) {
  Table out(static_cast<size_t>(t.size(0)), std::vector<double>(static_cast<size_t>(t.size(1))));
  for (int64_t i = 0; i < t.size(0); ++i)
    for (int64_t j = 0; j < t.size(1); ++j)
      out[static_cast<size_t>(i)][static_cast<size_t>(j)] = t[i][j].item<double>();
  return out;
}

TEST(BalancedObjective, PrototypesAreEquiangularWhereTheyFitIntoTheWidth) {
  const auto model = small_model();  // width 32
  const BalancedObjective objective(*model, some_answers(7));
  const auto p = objective.prototypes().detach().to(at::kDouble);
  ASSERT_EQ(p.sizes(), (std::vector<int64_t>{7, 32}));
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t j = 0; j < 7; ++j) {
      const double cosine = (p[i].dot(p[j]) / (p[i].norm() * p[j].norm())).item<double>();
      EXPECT_NEAR(cosine, i == j ? 1 : -1.0 / 6, 1e-5) << i << " " << j;
    }
  EXPECT_LT(p.sum(0).abs().max().item<double>(), 1e-5) << "they balance";
}

// Orthonormal rows are all there is room for, and angles differ.
TEST(BalancedObjective, MoreAnswersThanTheWidthLeaveOrthonormalRows) {
  const auto model = small_model();
  const BalancedObjective objective(*model, some_answers(50));
  const auto u = rotation_of(objective);
  ASSERT_EQ(u.sizes(), (std::vector<int64_t>{32, 50}));
  EXPECT_LT((u.mm(u.t()) - at::eye(32, at::kDouble)).abs().max().item<double>(), 1e-5);
  const auto p = objective.prototypes().detach().to(at::kDouble);
  const auto unit = p / p.norm(2, 1, true);
  const auto cosines = unit.mm(unit.t()).masked_select(at::eye(50, at::kBool).logical_not());
  EXPECT_GT((cosines.max() - cosines.min()).item<double>(), 0.1);
}

TEST(BalancedObjective, LogitsAreStatesTimesUTimesE) {
  const auto model = small_model();
  const BalancedObjective objective(*model, some_answers(9));
  Output output;
  output.state = torch::randn({4, 32});
  const auto u = rotation_of(objective);
  const auto e = at::eye(9, at::kDouble) - at::full({9, 9}, 1.0 / 9, at::kDouble);
  const auto expected = output.state.to(at::kDouble).mm(u).mm(e);
  EXPECT_TRUE(at::allclose(objective.logits(output, {}).detach().to(at::kDouble), expected, 1e-4, 1e-4));
  const auto earlier = torch::randn({32, 9});
  EXPECT_TRUE(at::allclose(objective.logits(output, {earlier}).to(at::kDouble),
                           output.state.to(at::kDouble).mm(earlier.to(at::kDouble)).mm(e), 1e-4, 1e-4));
}

// An answer is the arg-max of h U E over all K answers, and nothing else is said.
TEST(BalancedObjective, AnswersWithTheLargestOfAllLogits) {
  constexpr int64_t kAnswers = 20, kLast = kAnswers - 1;
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const MethodCase fixture("bcp-mfa", {}, folder / "model");
  const auto list = some_answers(kAnswers);
  const BalancedObjective objective(*fixture.model, list);
  const auto set = encode_samples(
      24, [&](int64_t i) { return fixture.stream->sample(static_cast<size_t>(i % 4), DataSplit::train, i / 4); },
      *fixture.model, nullptr);
  const auto batch = set.rows(range(0, 24));
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  want.state = true;
  const auto h = fixture.model->forward(batch.input, Pass{}, want).state.to(at::kDouble);
  // A rotation that scatters what untrained states have in common, and has the last answer for the first sample.
  auto rotation = objective.parameters().at(0).second;
  const auto random = orthogonal_factor(torch::randn(rotation.sizes()));
  const auto best_of = [&](const torch::Tensor& u, int64_t b) {
    int64_t best = 0;
    for (int64_t k = 1; k < kAnswers; ++k)
      if (h[b].dot(u.select(1, k)).item<double>() > h[b].dot(u.select(1, best)).item<double>()) best = k;
    return best;
  };
  const int64_t first = best_of(random.to(at::kDouble), 0);
  rotation.copy_(random);
  rotation.select(1, first).copy_(random.select(1, kLast));
  rotation.select(1, kLast).copy_(random.select(1, first));
  const auto u = rotation_of(objective);
  const auto found = objective.answers(*fixture.model, batch.input, Pass{}, 4);
  ASSERT_EQ(found.size(), 24u);
  std::set<std::string> seen(found.begin(), found.end());
  for (int64_t b = 0; b < 24; ++b)  // E takes the same from all logits of a sample
    EXPECT_EQ(found[static_cast<size_t>(b)], list[static_cast<size_t>(best_of(u, b))]) << b;
  EXPECT_EQ(found[0], list[kLast]);
  EXPECT_GT(seen.size(), 1u);
}

TEST(BalancedObjective, TargetsAreWhatAnswersAreWorthAndOutsideTheListNothing) {
  const auto model = small_model();
  const auto list = some_answers(4);
  const BalancedObjective objective(*model, list);
  SampleBatch batch;
  batch.input.ids = torch::zeros({4, 1}, at::kLong);
  // Of the last four times one answer and three times another: both are worth 1, and stay so.
  batch.info = {{"1", "what?", list[2], "", {list[2]}},
                {"2", "what?", list[0], "", {list[0], list[0], list[3], "a thing"}},
                {"3", "what?", "a thing", "", {"a thing"}},
                {"4", "what?", list[1], "", {list[1], list[1], list[1], list[1], list[2], list[2], list[2]}}};
  Output output;
  output.state = torch::randn({4, 32});
  const auto z = objective.logits(output, {}).detach().to(at::kDouble);
  const auto log_p = [&](int64_t b, int64_t k) {
    double sum = 0;
    for (int64_t j = 0; j < 4; ++j) sum += std::exp(z[b][j].item<double>());
    return z[b][k].item<double>() - std::log(sum);
  };
  const double losses[] = {-log_p(0, 2), -2.0 / 3 * log_p(1, 0) - 1.0 / 3 * log_p(1, 3), 0, -log_p(3, 1) - log_p(3, 2)};
  EXPECT_NEAR(objective.loss(output, batch, {}).item<double>(), (losses[0] + losses[1] + losses[3]) / 4, 1e-5);
  const auto weights = torch::tensor({0.5, 2.0, 7.0, 3.0});
  EXPECT_NEAR(objective.loss(output, batch, weights).item<double>(),
              (losses[0] * 0.5 + losses[1] * 2 + losses[3] * 3) / 4, 1e-5);
}

TEST(BalancedObjective, FeaturesAreNormalisedOverTheBatchAndThenEach) {
  const auto model = small_model();
  const BalancedObjective objective(*model, some_answers(4));
  const auto states = torch::randn({6, 32}) * 3 + 1;
  const auto h = states.to(at::kDouble);
  auto expected = (h - h.mean(0, true)) / (h.var(0, false, true) + 1e-5).sqrt();
  expected = expected / expected.norm(2, 1, true);
  EXPECT_TRUE(at::allclose(objective.features(states).detach().to(at::kDouble), expected, 1e-4, 1e-4));
}

TEST(BalancedObjective, TheCostOfATransportMayBeTheMeanSquaredDifference) {
  const auto model = small_model();
  const BalancedObjective objective(*model, some_answers(4));
  const auto states = torch::randn({5, 32}) * 2;
  const auto found = objective.features(states).detach().to(at::kDouble);
  const auto wanted = objective.prototypes().detach().to(at::kDouble);
  Table cost(5, std::vector<double>(static_cast<size_t>(wanted.size(0))));
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < wanted.size(0); ++j) {
      double sum = 0;
      for (int64_t k = 0; k < wanted.size(1); ++k) sum += std::pow((found[i][k] - wanted[j][k]).item<double>(), 2);
      cost[static_cast<size_t>(i)][static_cast<size_t>(j)] = sum / static_cast<double>(wanted.size(1));
    }
  const SinkhornOptions options;
  EXPECT_NEAR(objective.alignment(states, AlignmentCost::squared, options).item<double>(),
              transport_by_hand(cost, options).value, 1e-6);
}

TEST(Transport, IsThePlainIterationsValue) {
  const SinkhornOptions usual;
  EXPECT_EQ(usual.epsilon, 1);
  EXPECT_EQ(usual.iterations, 200);
  EXPECT_EQ(usual.stop, 0.1);
  const auto cost = torch::rand({5, 8}, at::kDouble) * 2;
  for (const double epsilon : {1.0, 0.2}) {
    SinkhornOptions options;
    options.epsilon = epsilon;
    const auto plain = transport_by_hand(table_of(cost), options);
    EXPECT_NEAR(transport_cost(cost, options).item<double>(), plain.value, 1e-10) << epsilon;
    EXPECT_LT(plain.iterations, 200) << "it stops by its rule";
    options.iterations = 1;
    EXPECT_NEAR(transport_cost(cost, options).item<double>(), transport_by_hand(table_of(cost), options).value, 1e-10);
  }
}

// With little entropy and time the plan is the cheapest assignment.
TEST(Transport, ComesToTheCheapestAssignment) {
  const auto cost = torch::tensor({{0.9, 0.1, 0.7}, {0.2, 0.8, 0.6}, {0.5, 0.9, 0.3}}, at::kDouble);
  SinkhornOptions options;
  options.epsilon = 0.01;
  options.iterations = 2000;
  options.stop = 0;
  EXPECT_NEAR(transport_cost(cost, options).item<double>(), (0.1 + 0.2 + 0.3) / 3, 1e-6);
}

TEST(Transport, GradientsAreDifferencesThroughAllIterations) {
  auto cost = (torch::rand({4, 6}, at::kDouble) * 2).requires_grad_();
  SinkhornOptions options;
  options.epsilon = 0.3;
  options.iterations = 7;
  options.stop = 0;
  const auto gradient = gradients(transport_cost(cost, options), {cost})[0];
  constexpr double kStep = 1e-5;
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 6; ++j) {
      auto up = cost.detach().clone(), down = cost.detach().clone();
      up[i][j] += kStep;
      down[i][j] -= kStep;
      const double slope =
          (transport_by_hand(table_of(up), options).value - transport_by_hand(table_of(down), options).value) /
          (2 * kStep);
      EXPECT_NEAR(gradient[i][j].item<double>(), slope, 1e-7) << i << " " << j;
    }
}

TEST(OrthogonalFactor, IsOrthogonalNearAndUntouchedWhereItWas) {
  for (const auto& sizes : {std::vector<int64_t>{9, 4}, std::vector<int64_t>{4, 9}}) {
    const auto q = orthogonal_factor(torch::randn(sizes, at::kDouble));
    const auto small = sizes[0] < sizes[1] ? q.mm(q.t()) : q.t().mm(q);
    EXPECT_LT((small - at::eye(4, at::kDouble)).abs().max().item<double>(), 1e-12);
    for (const double sign : {1.0, -1.0}) {  // whichever of both a library prefers
      const auto at_rest = q * sign;
      EXPECT_LT((orthogonal_factor(at_rest) - at_rest).abs().max().item<double>(), 1e-12);
      const auto moved = orthogonal_factor(at_rest + torch::randn(sizes, at::kDouble) * 1e-4);
      EXPECT_LT((moved - at_rest).abs().max().item<double>(), 1e-2) << "no column changes its sign";
    }
  }
}

// A step of a real run: both of its losses by hand from the checkpoint before it, and U orthogonal after it.
TEST(BcpMfa, LoggedLossesAreThoseByHandAndUStaysOrthogonal) {
  Recomputation again("bcp-mfa", {{"bcp-mfa.buffer", "6"}});
  again.set(Recomputation::kBefore);
  const auto stage = again.whole_stage(1);
  const auto u = again.kept("adapter.balanced_head.rotation");
  ASSERT_GT(u.size(0), u.size(1));
  const int64_t count = u.size(1);
  EXPECT_LT((u.t().mm(u) - at::eye(count, at::kDouble)).abs().max().item<double>(), 1e-5);
  std::set<std::string> answers;
  for (const size_t task : {0, 1})
    for (const auto& info : again.whole_stage(task).info) answers.insert(info.answer);
  ASSERT_EQ(static_cast<int64_t>(answers.size()), count);

  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  want.state = true;
  const auto h = again.model->forward(stage.input, Pass{}, want).state.to(at::kDouble);
  const auto e = at::eye(count, at::kDouble) - at::full({count, count}, 1.0 / static_cast<double>(count), at::kDouble);
  const auto z = h.mm(u).mm(e);
  double task_loss = 0;
  for (int64_t b = 0; b < stage.size(); ++b) {
    const auto place = std::distance(answers.begin(), answers.find(stage.info[static_cast<size_t>(b)].answer));
    task_loss += (z[b].exp().sum().log() - z[b][place]).item<double>() / static_cast<double>(stage.size());
  }
  EXPECT_NEAR(again.log["task_loss"].get<double>(), task_loss, 2e-4 * task_loss);

  auto f = (h - h.mean(0, true)) / (h.var(0, false, true) + 1e-5).sqrt();
  f = f * again.kept("adapter.balanced_head.scale") + again.kept("adapter.balanced_head.shift");
  f = f / f.norm(2, 1, true);
  auto p = u.mm(e).t();
  p = p / p.norm(2, 1, true);
  const SinkhornOptions published{1, 200, 0.1};
  const double transport = transport_by_hand(table_of(1 - f.mm(p.t())), published).value;
  EXPECT_NEAR(again.log["mfa_loss"].get<double>(), 5 * transport, 2e-4 * 5 * transport);
  EXPECT_NEAR(again.log["loss"].get<double>(), task_loss + 5 * transport, 2e-4 * (task_loss + 5 * transport));
  const auto metrics = nlohmann::json::parse(read_text(again.run + "/metrics.json"));
  EXPECT_EQ(metrics["head"], "answers") << "its own, whatever the option says";
}

class FakeTaskOwner final : public Method {
 public:
  std::unique_ptr<Objective> objective(const ObjectiveContext&) override { return language_objective(); }
};

TEST(BcpMfa, BadInputIsOneLine) {
  EXPECT_CONTAINS(message_of([] { method_parts("bcp-mfa+er"); }), "bcp-mfa cannot be combined with er");
  EXPECT_EQ(message_of([] { method_parts("asr+bcp-mfa"); }), "");
  const auto model = small_model();
  const ObjectiveContext run{*model, [] { return std::map<std::string, int64_t>{{"red", 3}, {"blue", 1}}; }};
  std::vector<std::unique_ptr<Method>> both;
  both.push_back(make_method("bcp-mfa"));
  both.push_back(std::make_unique<FakeTaskOwner>());
  EXPECT_CONTAINS(message_of([&] {
                    methods_objective(both, {"bcp-mfa", "fake"}, run);
                  }),
                  "methods bcp-mfa and fake both bring an objective of their own");
  EXPECT_CONTAINS(message_of([&] { BalancedObjective(*model, {"red"}); }), "needs two answers");
}

TEST(BcpMfa, TheListHasTheMostFrequentAnswers) {
  const auto model = small_model();
  auto method = std::move(make_methods("bcp-mfa", {{"bcp-mfa.answers", "2", "test"}})[0]);
  const auto objective =
      method->objective({*model, [] {
                           return std::map<std::string, int64_t>{{"red", 3}, {"blue", 1}, {"green", 5}};
                         }});
  EXPECT_EQ(rotation_of(*objective).size(1), 2);
  SampleBatch batch;
  batch.input.ids = torch::zeros({3, 1}, at::kLong);
  for (const std::string answer : {"red", "blue", "green"}) batch.info.push_back({"1", "what?", answer, "", {answer}});
  const auto targets = static_cast<const BalancedObjective&>(*objective).targets(batch).sum(1);
  EXPECT_EQ(targets[0].item<double>(), 1);
  EXPECT_EQ(targets[1].item<double>(), 0);
  EXPECT_EQ(targets[2].item<double>(), 1);
}

}  // namespace
}  // namespace asr
