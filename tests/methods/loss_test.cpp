// Losses and gradients of single methods, and of a sum of them, against numbers computed outside the trainer: a wrong
// sign, factor or weight, or one applied twice, is far outside these tolerances.
#include "spectral/memory.h"
#include "spectral/spectral_loss.h"
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

// F_i of the finished stage: the mean over blocks of samples of the squared gradient of a block's mean loss.
torch::Tensor fisher_by_hand(Recomputation& again, int64_t block) {
  again.set(Recomputation::kFirstStage);
  torch::Tensor sum;
  const int64_t samples = again.samples(0);
  for (int64_t first = 0; first < samples; first += block) {
    const auto loss = again.surprise(again.batch(0, range(first, first + block))).mean();
    const auto squared = again.gradient_of(loss).square();
    sum = sum.defined() ? sum + squared : squared;
  }
  return sum / static_cast<double>(samples / block);
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
