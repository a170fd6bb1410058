// D-MoLE's autoencoders as they are fitted in a run: each recognises its own task's samples, which it has not seen,
// against another task's.
#include "nn/adamw.h"
#include "tests/methods/d_mole_case.h"

namespace asr {
namespace {

constexpr int64_t kFitSteps = 300, kFitted = 60, kUnseen = 20;

EncodedSamples samples_of(MethodCase& fixture, size_t task, DataSplit split, int64_t count) {
  return encode_samples(
      count, [&](int64_t i) { return fixture.stream->sample(task, split, i); }, *fixture.model, nullptr);
}

// The phase before a stage's training, step by step as a trainer takes it.
void fit_autoencoder(MoleCase& test, int stage, const SampleSet& set) {
  test.enter_phase(stage, set, "autoencoder");
  Phase fit;
  fit.name = "autoencoder";
  std::vector<torch::Tensor> parameters;
  for (const auto& [name, tensor] : test->method->parameters().at(0).parameters)
    parameters.push_back(tensor.requires_grad_(true));
  AdamWOptions options;
  options.weight_decay = 0;
  AdamW adam(parameters, options);
  const auto batch = set.rows({0});
  bool done = false;
  for (int64_t step = 0; step < kFitSteps && !done; ++step) {
    adam.zero_grad();
    const auto loss = test->losses(batch, fit, stage).total();
    loss.backward();
    adam.step(cosine_rate(5e-3, step, kFitSteps, 0));
    done = test->method->phase_done(fit, step + 1, loss.item<double>());
  }
  test.enter_phase(stage, set, "");
}

TEST(DMole, FittedAutoencodersTellTheirTasksApart) {
  const size_t tasks[] = {3, 8};
  MoleCase test(MethodOptions{{"hidden", "32"}, {"quantile", "1"}});
  StreamOptions world;
  world.train = kFitted;
  world.val = kUnseen;
  world.image_size = 32;
  test->stream = make_stream(world);
  std::vector<PlainCode> before, after;
  for (int stage = 1; stage <= 2; ++stage) {
    const auto set = samples_of(*test.fixture, tasks[stage - 1], DataSplit::train, kFitted);
    test.begin(stage, set);
    before.push_back(code_of(test));
    fit_autoencoder(test, stage, set);
    after.push_back(code_of(test));
  }
  int told_before = 0, routed_home = 0;
  for (size_t own = 0; own < 2; ++own) {
    const auto set = samples_of(*test.fixture, tasks[own], DataSplit::val, kUnseen);
    const auto batch = set.rows(range(0, set.size()));
    const auto features = features_by_hand(*test.fixture, batch);
    const auto routed = test->pass(batch, 2, true);
    for (int64_t b = 0; b < set.size(); ++b) {
      const auto errors = [&](const std::vector<PlainCode>& codes, size_t k) { return codes[k].error(features[b]); };
      EXPECT_LT(10 * errors(after, own), errors(before, own)) << own << " " << b;
      EXPECT_LT(errors(after, own), errors(after, 1 - own)) << own << " " << b;
      told_before += errors(before, own) < errors(before, 1 - own) ? 1 : 0;
      routed_home += routed.choices[static_cast<size_t>(b)].slot == cat("stage-", own + 1) ? 1 : 0;
    }
  }
  EXPECT_LT(told_before, kUnseen + 5) << "without a fit they tell them apart, too";
  EXPECT_GE(routed_home, 2 * kUnseen - 4);  // an error may be above those of all samples that were fitted
}

}  // namespace
}  // namespace asr
