// Adapters on the vision tower: they begin as the base, change what is seen, and learn with the right gradient.
#include <gtest/gtest.h>

#include <functional>

#include "backbones/tiny.h"
#include "tests/backbones/reference_checks.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

std::vector<AdapterSite> tower_sites(Backbone& model) {
  std::vector<AdapterSite> out;
  for (const auto& site : model.all_sites())
    if (site.part == SitePart::vision) out.push_back(site);
  return out;
}

void check_tower(Backbone& model, const Batch& batch, double tolerance) {
  const auto loss = [&](const Pass& pass) { return model.forward(batch, pass, {}).loss; };
  const double base = loss({}).item<double>();
  EXPECT_FALSE(model.vision_adapted());
  const auto experts = add_experts(tower_sites(model), 3, 6, 1);
  ASSERT_FALSE(experts.empty());
  EXPECT_TRUE(model.vision_adapted());
  EXPECT_EQ(loss({}).item<double>(), base);  // B is zero
  std::vector<torch::Tensor> parameters, steps;
  torch::manual_seed(3);
  for (const auto& [name, tensor] : experts) {
    if (name.find("lora_B") != std::string::npos) tensor.detach().normal_(0, 0.05);
    parameters.push_back(tensor);
    steps.push_back(torch::randn_like(tensor) * 0.05);
  }
  EXPECT_GT(std::abs(loss({}).item<double>() - base), 1e-6);
  EXPECT_EQ(loss(Pass{0, nullptr}).item<double>(), base);
  const auto grads = gradients(loss({}), parameters);
  double slope = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    ASSERT_TRUE(grads[i].defined()) << experts[i].first;
    EXPECT_GT(grads[i].abs().max().item<double>(), 0) << experts[i].first;
    slope += (grads[i].to(at::kDouble) * steps[i]).sum().item<double>();
  }
  at::NoGradGuard no_grad;
  const auto moved = [&](double by) {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].add_(steps[i], by);
    const double out = loss({}).item<double>();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].sub_(steps[i], by);
    return out;
  };
  const double h = 0.02, measured = (moved(h) - moved(-h)) / (2 * h);
  EXPECT_NEAR(measured, slope, tolerance * std::abs(slope) + 1e-5);
}

TEST(TinyTower, AdaptersLearnAndKeptFeaturesAreNotRead) {
  const auto tokenizer = WordTokenizer::from_texts({"what color is the circle?", "red green blue"});
  for (const std::string kind : {"tiny", "tiny_cross"}) {
    auto config = tiny_config(kind, "S");
    config.vision.image = 32;
    config.vision.layers = 2;
    config.text.layers = 2;
    const auto model = TinyBackbone::random(config, tokenizer, 2);
    torch::manual_seed(5);
    Batch batch;
    batch.pixels = torch::rand({2, 3, 32, 32});
    batch.ids = torch::tensor({{5, 6, 2, 7, 1}, {6, 2, 8, 1, 0}});
    batch.mask = batch.ids.ne(0);
    batch.labels = torch::tensor({{-1, -1, -1, 7, 1}, {-1, -1, 8, 1, -1}});
    batch.question = torch::tensor({{1, 1, 0, 0, 0}, {1, 0, 0, 0, 0}}).to(at::kBool);
    const auto features = model->encode_images(batch.pixels);
    check_tower(*model, batch, 0.05);
    // What the base saw serves passes without experts alone.
    const auto seen = model->forward(batch, {}, {}).loss.item<double>();
    const auto base = model->forward(batch, Pass{0, nullptr}, {}).loss.item<double>();
    batch.features = features;
    EXPECT_EQ(model->forward(batch, {}, {}).loss.item<double>(), seen);
    EXPECT_NEAR(model->forward(batch, Pass{0, nullptr}, {}).loss.item<double>(), base, 1e-6);
    batch.pixels = torch::Tensor();
    EXPECT_CONTAINS(error_of([&] { model->forward(batch, {}, {}); }), "needs its pixels");
    EXPECT_NEAR(model->forward(batch, Pass{0, nullptr}, {}).loss.item<double>(), base, 1e-6);
  }
}

class PretrainedTower : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, PretrainedTower, ::testing::ValuesIn(reference_models()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST_P(PretrainedTower, AdaptersLearn) {
  const auto golden = open_reference(GetParam());
  if (IsSkipped()) return;
  if (!golden.io.find("in.pixel_values")) GTEST_SKIP() << "a model of text alone";
  const auto model = open_model(golden.folder);
  check_tower(*model, batch_of(golden), 0.02);
}

}  // namespace
}  // namespace asr
