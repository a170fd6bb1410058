// What is learnt, by hand: the plain and the weighted mean, answer tokens or samples, and where the closed list comes
// from.
#include "train/objectives.h"

#include <nlohmann/json.hpp>

#include "tensor/tensor_io.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

// Two samples with one and two answer tokens over three words.
SampleBatch labelled() {
  SampleBatch out;
  out.input.ids = at::zeros({2, 3}, at::kLong);
  out.input.labels = torch::tensor({{-1, 2, -1}, {-1, 0, 1}}, at::kLong);
  out.info.resize(2);
  out.info[0].answer = "yes";
  out.info[1].answer = "no";
  return out;
}

double cross_entropy(const torch::Tensor& logits, int64_t target) {
  double sum = 0;
  for (int64_t i = 0; i < logits.size(0); ++i) sum += std::exp(logits[i].item<double>());
  return std::log(sum) - logits[target].item<double>();
}

TEST(LanguageObjective, WeighsSamplesByTheirOwnMeans) {
  const auto objective = language_objective();
  const auto batch = labelled();
  Output output;
  output.logits = torch::tensor({{0.5, -1.0, 2.0}, {1.0, 0.0, 0.0}, {-1.0, 0.5, 0.25}});
  output.loss = torch::tensor(7.0);
  EXPECT_EQ(objective->learnt(batch), 3);
  EXPECT_EQ(objective->loss(output, batch, {}).item<double>(), 7);  // the model's own
  const double first = cross_entropy(output.logits[0], 2);
  const double second = (cross_entropy(output.logits[1], 0) + cross_entropy(output.logits[2], 1)) / 2;
  const auto weighed = objective->loss(output, batch, torch::tensor({0.25, 2.0}));
  EXPECT_NEAR(weighed.item<double>(), (0.25 * first + 2 * second) / 2, 1e-6);
  Want want;
  want.loss = false;
  objective->ask_for_logits(want);
  EXPECT_TRUE(want.logits);
  EXPECT_FALSE(want.loss);
}

TEST(ClosedObjective, ChoosesFromItsList) {
  const auto model = small_model();
  const auto objective = closed_objective(*model, {"no", "yes"});
  const auto batch = labelled();
  const auto weight = objective->parameters().at(0).second;
  {
    at::NoGradGuard no_grad;
    auto value = weight;
    value.normal_();
  }
  Output output;
  output.state = torch::randn({2, model->width()});
  const auto logits = output.state.mm(weight.t()).detach();
  EXPECT_TRUE(at::allclose(objective->logits(output), logits, 1e-5, 1e-5));
  EXPECT_EQ(objective->learnt(batch), 2);
  const double first = cross_entropy(logits[0], 1), second = cross_entropy(logits[1], 0);
  EXPECT_NEAR(objective->loss(output, batch, {}).item<double>(), (first + second) / 2, 1e-5);
  EXPECT_NEAR(objective->loss(output, batch, torch::tensor({0.5, 3.0})).item<double>(), (0.5 * first + 3 * second) / 2,
              1e-5);
  // A teacher's own copy of the head.
  const auto other = torch::randn_like(weight);
  EXPECT_TRUE(at::allclose(objective->logits(output, {other}), output.state.mm(other.t()), 1e-5, 1e-5));
  auto unknown = batch;
  unknown.info[0].answer = "maybe";
  EXPECT_CONTAINS(error_of([&] { objective->loss(output, unknown, {}); }), "answer 'maybe' is not among the 2");
}

// What is scored must not say what can be answered.
TEST(ClosedObjective, ItsListIsOfTrainingAnswers) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "vanilla");
  list.push_back({"head", "answers", "test"});
  const auto run = run_small(list)[0];
  const auto stream = make_stream(resolve_run(list).run.stream);
  std::set<std::string> trained, all;
  for (size_t task = 0; task < 3; ++task)
    for (const auto split : {DataSplit::train, DataSplit::val})
      for (int64_t i = 0; i < stream->size(task, split); ++i) {
        const auto answer = stream->text(task, split, i).answer;
        all.insert(answer);
        if (split == DataSplit::train) trained.insert(answer);
      }
  ASSERT_GT(all.size(), trained.size()) << "the validation samples should know more answers";
  const auto file = read_safetensors(run + "/adapter/answer_head.safetensors");
  EXPECT_EQ(load_tensor(file, "answer_head.weight").size(0), static_cast<int64_t>(trained.size()));
}

}  // namespace
}  // namespace asr
