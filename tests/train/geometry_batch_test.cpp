// The geometry term reaches over a forward pass or over a whole step (geometry.batch); with the latter, how a step is
// split into passes changes nothing. Its reference is of the pictures that are trained on, augmented or not.
#include "data/encoded_samples.h"
#include "spectral/spectral_loss.h"
#include "tests/train/run_support.h"
#include "train/objectives.h"

namespace asr {
namespace {

torch::Tensor random_rows(int64_t rows, uint64_t seed) {
  return at::randn({rows, 6}, at::detail::createCPUGenerator(seed), at::CPU(at::kDouble));
}

// What the method adds for a part of the step, as the trainer divides it: the mean over passes.
torch::Tensor part_of_step(Method& method, Backbone& model, const SampleBatch& batch, const Output& output,
                           int64_t first) {
  const int64_t passes = 3;
  const Team alone;
  const NamedParameters parameters;
  const auto objective = language_objective();
  const Phase phase;
  const std::vector<int64_t> rows;
  AdapterBank bank(model.all_sites());
  Share share{alone};
  share.positions = range(0, output.image.size(0));
  std::map<std::string, torch::Tensor> log;
  std::vector<std::pair<torch::Tensor, double>> losses;
  StepContext step{parameters, model,  bank, *objective, phase,  batch, rows,
                   share,      output, {},   log,        losses, first, passes};
  method.add_losses(step);
  return losses.at(0).first / static_cast<double>(passes);
}

TEST(GeometryBatch, PartsAddUpToTheGradientOfTheWholeStep) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto model = load_backbone(folder / "model");
  const auto methods = make_methods("asr", {});
  Options options;
  methods[0]->prepare(*model, options);
  auto image = random_rows(8, 1).requires_grad_(), text = random_rows(8, 2).requires_grad_();
  const auto image0 = random_rows(8, 3), text0 = random_rows(8, 4);
  const auto whole = geometry_loss(image, text, image0, text0);
  whole.backward();
  const auto wanted_image = image.grad().clone(), wanted_text = text.grad().clone();
  image.mutable_grad() = torch::Tensor();
  text.mutable_grad() = torch::Tensor();

  methods[0]->whole_step({image.detach(), text.detach(), image0, text0});
  double value = 0;
  int64_t first = 0;
  for (const int64_t rows : {3, 1, 4}) {
    SampleBatch batch;
    batch.reference_image = image0.narrow(0, first, rows);
    batch.reference_text = text0.narrow(0, first, rows);
    Output output;
    output.image = image.narrow(0, first, rows);
    output.text = text.narrow(0, first, rows);
    const auto loss = part_of_step(*methods[0], *model, batch, output, first);
    loss.backward();
    value += loss.item<double>();
    first += rows;
  }
  EXPECT_NEAR(value, whole.item<double>(), 1e-12);
  EXPECT_LT((image.grad() - wanted_image).abs().max().item<double>(), 1e-12);
  EXPECT_LT((text.grad() - wanted_text).abs().max().item<double>(), 1e-12);
}

std::vector<nlohmann::json> steps_logged(const std::string& run) {
  std::vector<nlohmann::json> out;
  std::istringstream lines(read_text(run + "/log.jsonl"));
  for (std::string text; std::getline(lines, text);)
    if (auto line = nlohmann::json::parse(text); line.contains("grad_norm")) out.push_back(std::move(line));
  return out;
}

TEST(GeometryBatch, ASplitStepIsTheWholeOne) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto run = [&](const char* out, const char* batch, const char* accumulation, const char* reach) {
    auto list = small_run(folder / "model", folder / out, "asr");
    const auto set = [&](const char* key, const char* value) { list.push_back({key, value, "test"}); };
    set("per_device_train_batch_size", batch);
    set("gradient_accumulation_steps", accumulation);
    set("geometry.batch", reach);
    set("lora_dropout", "0");
    set("stream.tasks", "2");
    set("head", "answers");  // whose loss is a mean over samples, so that it, too, does not see passes
    set("asr.gamma", "0.5");
    set("asr.beta", "0");
    set("learning_rate", "0.003");
    return steps_logged(run_small(list)[0]);
  };
  const auto one = run("one", "8", "1", "global"), four = run("four", "2", "4", "global");
  const auto apart = run("apart", "2", "4", "micro"), plain = run("plain", "8", "1", "micro");
  ASSERT_EQ(one.size(), 6u);
  ASSERT_EQ(four.size(), 6u);
  double difference = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    const double wanted = one[i]["geometry_loss"];
    EXPECT_EQ(wanted, plain[i]["geometry_loss"].get<double>());  // one pass is the whole step
    EXPECT_NEAR(four[i]["geometry_loss"].get<double>(), wanted, 1e-3 * wanted + 1e-7) << i;
    EXPECT_NEAR(four[i]["loss"].get<double>(), one[i]["loss"].get<double>(), 1e-4) << i;
    EXPECT_NEAR(four[i]["grad_norm"].get<double>(), one[i]["grad_norm"].get<double>(),
                1e-2 * one[i]["grad_norm"].get<double>())
        << i;
    difference = std::max(difference, std::abs(apart[i]["geometry_loss"].get<double>() / wanted - 1));
  }
  EXPECT_GT(difference, 0.1);
}

// The pass that only looks has the dropout of the one that trains.
TEST(GeometryBatch, DropoutIsTheSameInBothPasses) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto model = load_backbone(folder / "model");
  auto parameters = add_experts(model->sites(), 2, 4, 3);
  {
    at::NoGradGuard no_grad;
    for (auto& [name, tensor] : parameters) tensor.fill_(0.05);
  }
  StreamOptions stream;
  stream.train = 4;
  stream.val = 2;
  stream.image_size = 32;
  const auto world = make_stream(stream);
  const auto set = encode_samples(
      4, [&](int64_t i) { return world->sample(0, DataSplit::train, i); }, *model, nullptr);
  const auto batch = set.rows(range(0, 4));
  const auto pooled = [&](bool training, uint64_t key) {
    AdapterDropout dropout{0.5, key};
    const Pass pass{1, &dropout};
    Want want;
    want.pooled = true;
    want.loss = training;
    want.tap_layers = training ? 1 : 0;
    const at::AutoGradMode mode(training);
    return model->forward(batch.input, pass, want).image.detach();
  };
  EXPECT_LT((pooled(true, 7) - pooled(false, 7)).abs().max().item<double>(), 1e-5);
  EXPECT_GT((pooled(true, 7) - pooled(false, 8)).abs().max().item<double>(), 1e-4);
}

// Before the first step adapters change nothing, so that a picture is as far from its own reference as nothing.
TEST(GeometryReference, IsOfTheAugmentedPictures) {
  TemporaryFolder folder;
  auto list = small_run(ASR_SOURCE_DIR "/tests/fixtures/models/llava", folder / "out", "asr");
  const auto set = [&](const char* key, const char* value) { list.push_back({key, value, "test"}); };
  set("stream.tasks", "2");
  set("stream.train", "6");
  set("stream.val", "2");
  set("per_device_train_batch_size", "6");
  set("attention.layers", "1");
  set("analysis.samples", "2");
  set("recipe", "asr-paper");
  set("lora_rank", "2");
  const auto steps = steps_logged(run_small(list)[0]);
  ASSERT_FALSE(steps.empty());
  EXPECT_LT(std::abs(steps[0]["geometry_loss"].get<double>()), 1e-9);
}

}  // namespace
}  // namespace asr
