// Losses and gradients of single methods, and of a sum of them, against numbers computed outside the trainer: a wrong
// sign, factor or weight, or one applied twice, is far outside these tolerances.
#include "spectral/memory.h"
#include "spectral/spectral_loss.h"
#include "tests/methods/held_state.h"
#include "tests/methods/method_case.h"
#include "tests/methods/recomputation.h"

namespace asr {
namespace {

constexpr double kTolerance = 2e-4;  // of float32 models

#define EXPECT_CLOSE(found, expected) EXPECT_NEAR(found, expected, kTolerance* std::abs(expected))

// The gradient that was applied is the sum of these, each of which is large enough for half or twice of it to be seen.
void expect_gradient(const Recomputation& again, const std::vector<torch::Tensor>& terms) {
  const auto applied = again.applied_gradient();
  auto sum = torch::zeros_like(applied);
  for (size_t i = 0; i < terms.size(); ++i) {
    sum += terms[i];
    EXPECT_GT(terms[i].norm().item<double>(), 10 * kTolerance * applied.norm().item<double>()) << "term " << i;
  }
  EXPECT_LT(relative_distance(applied, sum), kTolerance);
}

TEST(Recomputed, TheTaskLossIsTheMeanOverAnswerTokens) {
  Recomputation again("vanilla", {});
  again.set(Recomputation::kBefore);
  const auto stage = again.whole_stage(1);
  const auto loss = again.surprise(stage).mean();
  EXPECT_CLOSE(again.log["task_loss"].get<double>(), loss.item<double>());
  EXPECT_CLOSE(again.log["loss"].get<double>(), loss.item<double>());
  const auto gradient = again.gradient_of(loss), applied = again.applied_gradient();
  EXPECT_LT(relative_distance(applied, gradient), kTolerance);
  EXPECT_CLOSE(again.log["grad_norm"].get<double>(), gradient.norm().item<double>());
  // And it is the slope of the loss, by differences.
  const auto direction = applied / applied.norm();
  const auto at_distance = [&](double distance) {
    again.set(Recomputation::kBefore);
    at::NoGradGuard no_grad;
    int64_t first = 0;
    for (auto& [name, tensor] : again.parameters) {
      tensor += (direction.narrow(0, first, tensor.numel()).view(tensor.sizes()) * distance).to(at::kFloat);
      first += tensor.numel();
    }
    return again.surprise(stage).mean().item<double>();
  };
  const double slope = (at_distance(0.01) - at_distance(-0.01)) / 0.02;
  EXPECT_NEAR(slope, applied.norm().item<double>(), 0.02 * std::abs(slope));
}

// Samples count by the length of their question, in hundreds of letters.
class FakeWeights final : public Method {
 public:
  torch::Tensor sample_weights(const SampleBatch& batch) const override {
    std::vector<float> out;
    for (const auto& info : batch.info) out.push_back(static_cast<float>(info.question.size()) / 100);
    return torch::tensor(out);
  }
};

TEST(Recomputed, WeightsOfSamplesMakeTheLossAMeanOverSamples) {
  add_method("fake-weights", "weighs samples", [] { return std::make_unique<FakeWeights>(); });
  Recomputation again("fake-weights", {});
  again.set(Recomputation::kBefore);
  const auto stage = again.whole_stage(1);
  const auto surprise = again.surprise(stage);
  const auto owner = stage.input.labels.ge(0).nonzero().select(1, 0);
  torch::Tensor loss = torch::zeros({}, at::kDouble);
  for (int64_t b = 0; b < stage.size(); ++b) {
    const double weight = static_cast<double>(stage.info[static_cast<size_t>(b)].question.size()) / 100;
    loss = loss + surprise.masked_select(owner.eq(b)).mean() * (weight / static_cast<double>(stage.size()));
  }
  EXPECT_CLOSE(again.log["task_loss"].get<double>(), loss.item<double>());
  EXPECT_LT(relative_distance(again.applied_gradient(), again.gradient_of(loss)), kTolerance);
}

// The mean over blocks of samples of a block's squared gradient.
using BlockGradient = std::function<torch::Tensor(const std::vector<int64_t>&)>;
torch::Tensor squared_by_blocks(int64_t samples, int64_t block, const BlockGradient& gradient) {
  torch::Tensor sum;
  for (int64_t first = 0; first < samples; first += block) {
    const auto squared = gradient(range(first, first + block)).square();
    sum = sum.defined() ? sum + squared : squared;
  }
  return sum / static_cast<double>(samples / block);
}

// F_i of the finished stage, of a block's mean loss.
torch::Tensor fisher_by_hand(Recomputation& again, int64_t block) {
  again.set(Recomputation::kFirstStage);
  return squared_by_blocks(again.samples(0), block, [&](const std::vector<int64_t>& rows) {
    return again.gradient_of(again.surprise(again.batch(0, rows)).mean());
  });
}

TEST(Recomputed, EwcIsLambdaTimesFisherTimesTheSquaredWay) {
  for (const int64_t block : {1, 8}) {
    SCOPED_TRACE(block);
    constexpr double lambda = 300;
    Recomputation again("ewc", {{"ewc.lambda", "300"}, {"ewc.fisher_batch", std::to_string(block)}});
    const auto fisher = fisher_by_hand(again, block);
    const auto anchor = again.flat_after(Recomputation::kFirstStage);
    const auto way = again.flat_after(Recomputation::kBefore) - anchor;
    const double penalty = lambda * (fisher * way.square()).sum().item<double>();  // no factor 1/2
    const auto task = again.surprise(again.whole_stage(1)).mean();
    EXPECT_CLOSE(again.log["ewc_loss"].get<double>(), penalty);
    EXPECT_CLOSE(again.log["task_loss"].get<double>(), task.item<double>());
    EXPECT_CLOSE(again.log["loss"].get<double>(), task.item<double>() + penalty);
    expect_gradient(again, {again.gradient_of(task), 2 * lambda * fisher * way});
  }
}

// Three stages, after each of which F is measured anew: by default the last one counts.
TEST(Ewc, KeepsTheLastFisherOrTheirSumOrTheirDecayingSum) {
  for (const std::string mode : {"", "latest", "sum", "online"}) {
    SCOPED_TRACE(mode);
    MethodOptions options = {{"online_gamma", "0.6"}, {"fisher_batch", "4"}, {"lambda", "300"}};
    if (!mode.empty()) options.emplace_back("accumulate", mode);
    OwnModelCase test("ewc", options);
    test->lay_out(1);
    const auto set = test->data();
    std::vector<torch::Tensor> f;
    for (int stage = 1; stage <= 3; ++stage) {
      test->randomise(0.1 * stage);
      auto context = test->stage_context(stage, set);
      test->method->after_stage(context);
      f.push_back(squared_by_blocks(12, 4, [&](const std::vector<int64_t>& rows) {
        const auto batch = set.rows(rows);
        Want want;
        want.loss = false;
        want.logits = true;
        const Pass adapted{test->bank->bit(kTrainedSlot), nullptr};
        const auto z = test->model->forward(batch.input, adapted, want).logits.to(at::kDouble);
        const auto labels = batch.input.labels.masked_select(batch.input.labels.ge(0));
        return flat_gradient(surprise_of(z, labels).mean(), test->trained);
      }));
    }
    const std::map<std::string, torch::Tensor> kept = {
        {"", f[2]}, {"latest", f[2]}, {"sum", f[0] + f[1] + f[2]}, {"online", f[0] * 0.36 + f[1] * 0.6 + f[2]}};
    const auto& fisher = kept.at(mode);
    EXPECT_LT(relative_distance(held_tensor(*test->method, "fisher").to(at::kDouble), fisher), kTolerance);
    // The way is counted from where the last stage ended, in any case.
    const auto anchor = flat_numbers(test->trained);
    test->randomise(0.5);
    const auto way = flat_numbers(test->trained) - anchor;
    EXPECT_CLOSE(test->losses(set.rows({0, 1})).total().item<double>(),
                 300 * (fisher * way.square()).sum().item<double>());
  }
}

// States before the answers of a batch, by the adapters as they are, which a closed head reads.
torch::Tensor answer_states(MethodCase& fixture, const SampleBatch& batch) {
  Want want;
  want.loss = false;
  want.state = true;
  const Pass adapted{fixture.bank->bit(kTrainedSlot), nullptr};
  return fixture.model->forward(batch.input, adapted, want).state.to(at::kDouble);
}

// A closed head over the answers of these samples with large numbers in it, so that its choices are far apart.
torch::Tensor close_head(MethodCase& fixture, const SampleSet& set) {
  at::NoGradGuard no_grad;
  fixture.objective = closed_objective(*fixture.model, answers_of({&set}));
  const auto head = fixture.objective->parameters().at(0).second;
  head.normal_(0, 0.5);
  return head;
}

TEST(Ewc, HoldsAClosedHeadByAFisherOfItsOwn) {
  OwnModelCase test("ewc", MethodOptions{{"fisher_batch", "4"}, {"lambda", "300"}});
  const auto set = test->data();
  const auto head = close_head(*test.fixture, set);
  test->lay_out(1);
  test->randomise();
  const auto adapters = test->trained;
  test->trained.push_back(test->objective->parameters().at(0));
  auto context = test->stage_context(1, set);
  test->method->after_stage(context);
  const auto answers = answers_of({&set});
  const auto fisher = squared_by_blocks(12, 4, [&](const std::vector<int64_t>& rows) {
    std::vector<int64_t> places;
    for (const int64_t row : rows)
      places.push_back(std::find(answers.begin(), answers.end(), set.info(row).answer) - answers.begin());
    const auto right = torch::tensor(places, at::kLong);
    const auto state = answer_states(*test.fixture, set.rows(rows));
    const auto z = state.mm(head.detach().to(at::kDouble).t());
    // The mean of -log p has the slope (p - [it is the right one]) state / samples.
    const auto wrong = z.detach().softmax(1) - at::one_hot(right, z.size(1)).to(at::kDouble);
    const auto of_head = wrong.t().mm(state.detach()) / static_cast<double>(rows.size());
    return at::cat({flat_gradient(surprise_of(z, right).mean(), adapters), of_head.flatten()});
  });
  const auto found = held_tensor(*test->method, "fisher").to(at::kDouble);
  ASSERT_EQ(found.numel(), fisher.numel());
  const int64_t own = head.numel(), others = found.numel() - own;
  const auto of_head = fisher.narrow(0, others, own);
  EXPECT_LT(relative_distance(found.narrow(0, 0, others), fisher.narrow(0, 0, others)), kTolerance);
  EXPECT_LT(relative_distance(found.narrow(0, others, own), of_head), kTolerance);
  {
    at::NoGradGuard no_grad;
    head.add_(0.1);  // and nothing else
  }
  EXPECT_CLOSE(test->losses(set.rows({0, 1})).total().item<double>(), 300 * 0.01 * of_head.sum().item<double>());
}

// T^2 KL(p_old || p_new) of distributions at temperature T, the mean over rows, by its definition.
double divergence_by_hand(const torch::Tensor& old_logits, const torch::Tensor& new_logits, double temperature) {
  const auto p = (old_logits / temperature).exp(), q = (new_logits / temperature).exp();
  const auto p_sum = p / p.sum(1, true), q_sum = q / q.sum(1, true);
  return temperature * temperature * (p_sum * (p_sum / q_sum).log()).sum().item<double>() /
         static_cast<double>(old_logits.size(0));
}

TEST(Recomputed, LwfIsTheDivergenceFromTheStageBefore) {
  constexpr double weight = 1.5, temperature = 3;
  Recomputation again("lwf", {{"lwf.weight", "1.5"}, {"lwf.temperature", "3"}});
  const auto stage = again.whole_stage(1);
  torch::Tensor old_logits;
  {
    at::NoGradGuard no_grad;
    again.set(Recomputation::kFirstStage);
    old_logits = again.logits(stage);
  }
  again.set(Recomputation::kBefore);
  const auto new_logits = again.logits(stage);
  const double distilled = weight * divergence_by_hand(old_logits, new_logits.detach(), temperature);
  const auto task = again.surprise(stage).mean();
  EXPECT_CLOSE(again.log["lwf_loss"].get<double>(), distilled);
  EXPECT_CLOSE(again.log["loss"].get<double>(), task.item<double>() + distilled);
  // d / dz_new = weight T (q - p) / N, carried back by the model.
  const auto slope = weight * temperature *
                     ((new_logits.detach() / temperature).softmax(1) - (old_logits / temperature).softmax(1)) /
                     static_cast<double>(old_logits.size(0));
  expect_gradient(again, {again.gradient_of(task), again.gradient_of((new_logits * slope).sum())});
}

// Adapters and head have both moved since: the teacher chooses by its own of either.
TEST(Lwf, AClosedHeadIsHeldToItsEarlierSelf) {
  constexpr double weight = 1.5, temperature = 3;
  OwnModelCase test("lwf", MethodOptions{{"weight", "1.5"}, {"temperature", "3"}});
  const auto set = test->data();
  const auto head = close_head(*test.fixture, set);
  test->lay_out(1);
  test->randomise(0.3);
  auto context = test->stage_context(1, set);
  test->method->begin_stage(context);
  test->method->after_stage(context);
  const auto batch = set.rows(range(0, 6));
  const auto old_state = answer_states(*test.fixture, batch).detach();
  const auto old_logits = old_state.mm(head.detach().to(at::kDouble).t());
  {
    at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : test->bank->tensors_of(kTrainedSlot)) tensor.mul_(-0.5).add_(0.05);
    head.mul_(0.5).add_(torch::randn_like(head) * 0.25);
  }
  const auto state = answer_states(*test.fixture, batch).detach();
  const auto moved = head.detach().to(at::kDouble);
  const auto logits = state.mm(moved.t());
  const double distilled = weight * divergence_by_hand(old_logits, logits, temperature);
  const double with_new_head = weight * divergence_by_hand(old_state.mm(moved.t()), logits, temperature);
  EXPECT_GT(std::abs(with_new_head - distilled), 0.01 * distilled) << "whose head it is makes no difference here";
  const auto found = test->losses(batch).total();
  EXPECT_CLOSE(found.item<double>(), distilled);
  // d / dW = weight T (q - p)^T state / samples
  const auto slope =
      weight * temperature * ((logits / temperature).softmax(1) - (old_logits / temperature).softmax(1)) / 6;
  EXPECT_LT(relative_distance(gradients(found, {head})[0].to(at::kDouble), slope.t().mm(state)), kTolerance);
}

// Six samples of the stage and two of the one before make a batch of eight, whose loss is one mean over all answer
// tokens. Which two they are is found by trying all pairs.
TEST(Recomputed, ErMixesThreeToOneUnderOneMean) {
  Recomputation again("er", {{"stream.train", "6"}, {"er.buffer", "6"}, {"er.share", "0.25"}});
  again.set(Recomputation::kBefore);
  const auto current = again.surprise(again.whole_stage(1));
  std::vector<torch::Tensor> earlier;
  for (int64_t i = 0; i < again.samples(0); ++i) earlier.push_back(again.surprise(again.batch(0, {i})));
  const double logged = again.log["task_loss"].get<double>();
  std::vector<torch::Tensor> fitting;
  for (size_t a = 0; a < earlier.size(); ++a)
    for (size_t b = a + 1; b < earlier.size(); ++b) {
      const auto loss = at::cat({current, earlier[a], earlier[b]}).mean();
      if (std::abs(loss.item<double>() - logged) < 2e-6 * logged) fitting.push_back(loss);
    }
  ASSERT_EQ(fitting.size(), 1u);
  EXPECT_CLOSE(again.log["loss"].get<double>(), fitting[0].item<double>());
  EXPECT_LT(relative_distance(again.applied_gradient(), again.gradient_of(fitting[0])), kTolerance);
}

TEST(Recomputed, ATotalLossHasEveryWeightOnce) {
  constexpr double beta = 700, gamma = 30, lambda = 300, weight = 1.5, temperature = 2;
  Recomputation again("asr+ewc+lwf", {{"asr.beta", "700"},
                                      {"asr.gamma", "30"},
                                      {"ewc.lambda", "300"},
                                      {"ewc.fisher_batch", "8"},
                                      {"lwf.weight", "1.5"},
                                      {"spectral.covariance_floor", "0.01"}});
  const auto& options = again.config.options;
  const auto stage = again.whole_stage(1, /*reference=*/true);
  const auto fisher = fisher_by_hand(again, 8);
  const auto anchor = again.flat();
  torch::Tensor old_logits;
  {
    at::NoGradGuard no_grad;
    old_logits = again.logits(stage);
  }
  again.set(Recomputation::kBefore);
  const auto way = again.flat() - anchor;
  const auto new_logits = again.logits(stage);
  Want want;
  want.tap_layers = again.config.run.tap_layers;
  want.pooled = true;
  const auto seen = again.model->forward(stage.input, Pass{}, want),
             pooled = again.model->forward(stage.input, Pass{}, want);  // a graph each
  const SpectralEncoder encoder(seen.attention.size(4), seen.attention.size(5), options.spectral);
  const SpectralLoss prototypes(load_memory(again.run + "/stages/01/memory.safetensors").tensors(), options,
                                at::TensorOptions(at::kFloat));
  const auto spectral =
      prototypes(encoder.descriptor(seen.attention, row_weights(stage.input, seen)), stage.posterior).loss;
  const auto geometry = geometry_loss_reference(pooled.image, pooled.text, stage.reference_image, stage.reference_text);
  const auto task = again.surprise(stage).mean();
  const double penalty = lambda * (fisher * way.square()).sum().item<double>();
  const double distilled = weight * divergence_by_hand(old_logits, new_logits.detach(), temperature);
  const double terms[] = {beta * spectral.item<double>(), gamma * geometry.item<double>(), penalty, distilled};
  EXPECT_CLOSE(again.log["task_loss"].get<double>(), task.item<double>());
  EXPECT_CLOSE(again.log["spectral_loss"].get<double>(), terms[0]);
  EXPECT_CLOSE(again.log["geometry_loss"].get<double>(), terms[1]);
  EXPECT_CLOSE(again.log["ewc_loss"].get<double>(), terms[2]);
  EXPECT_CLOSE(again.log["lwf_loss"].get<double>(), terms[3]);
  EXPECT_CLOSE(again.log["loss"].get<double>(), task.item<double>() + terms[0] + terms[1] + terms[2] + terms[3]);
  const auto slope = weight * temperature *
                     ((new_logits.detach() / temperature).softmax(1) - (old_logits / temperature).softmax(1)) /
                     static_cast<double>(old_logits.size(0));
  expect_gradient(again,
                  {again.gradient_of(task), 2 * lambda * fisher * way, again.gradient_of((new_logits * slope).sum()),
                   beta * again.gradient_of(spectral), gamma * again.gradient_of(geometry)});
}

}  // namespace
}  // namespace asr
