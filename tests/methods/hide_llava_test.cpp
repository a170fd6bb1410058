// HiDe-LLaVA: anchors are means over a stage, weights a softmax of cosines, factors fused below the last layer.
#include "tests/methods/method_case.h"

namespace asr {
namespace {

std::pair<torch::Tensor, torch::Tensor> base_embeddings(MethodCase& fixture, const SampleBatch& batch) {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  want.pooled = true;
  const auto out = fixture.model->forward(batch.input, Pass{0, nullptr}, want);
  return {out.image.to(at::kDouble), out.text.to(at::kDouble)};
}

double cosine(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a * b).sum() / (a.norm() * b.norm())).item<double>();
}

TEST(HideLlava, WeighsStagesBySimilarityOfPictureAndQuestion) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  MethodCase fixture("hide-llava", {{"hide-llava.temperature", "0.05", "test"}}, folder / "model");
  std::vector<std::pair<torch::Tensor, torch::Tensor>> anchors;
  for (int stage = 1; stage <= 2; ++stage) {
    fixture.lay_out(stage);
    const auto set = fixture.data(static_cast<size_t>(stage) * 3);
    auto context = fixture.stage_context(stage, set);
    fixture.method->begin_stage(context);
    fixture.method->after_stage(context);
    const auto [image, text] = base_embeddings(fixture, set.rows(range(0, set.size())));
    anchors.emplace_back(image.mean(0), text.mean(0));
  }
  const auto set = fixture.data(6);
  const auto batch = set.rows(range(0, 5));
  const auto routed = fixture.pass(batch, 2, true);
  ASSERT_EQ(routed.given.size(), 2u);
  const auto [image, text] = base_embeddings(fixture, batch);
  for (int64_t b = 0; b < 5; ++b) {
    double weight[2];
    for (size_t k = 0; k < 2; ++k)
      weight[k] = std::exp((cosine(image[b], anchors[k].first) + cosine(text[b], anchors[k].second)) / 2 / 0.05);
    for (size_t k = 0; k < 2; ++k)
      EXPECT_NEAR(routed.given.at(k)[b][0].item<double>(), weight[k] / (weight[0] + weight[1]), 1e-3) << b << " " << k;
  }
}

// The Q-Former of this model has three layers, its language model two.
TEST(HideLlava, TheLastLayerIsTheLanguageModels) {
  MethodCase fixture("hide-llava", {}, ASR_SOURCE_DIR "/tests/fixtures/models/instructblip");
  const auto plain = plain_layout(fixture.model->all_sites(), fixture.run).slot;
  const auto layout = fixture.method->layout(fixture.bank->sites(), plain, 1);
  ASSERT_TRUE(layout.has_value());
  std::set<std::string> weighed, wanted;
  for (const auto& site : layout->at(0).sites)
    if (site.answering.kind == GateKind::given) weighed.insert(site.site);
  const auto last = cat("language_model.model.layers.", fixture.model->layers() - 1, ".");
  for (const auto& site : plain.sites)
    if (site.site.find(last) != std::string::npos) wanted.insert(site.site);
  EXPECT_EQ(wanted.size(), 2u);
  EXPECT_EQ(weighed, wanted);
}

TEST(HideLlava, FusesFactorsBelowTheLastLayerAndWeighsThere) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  for (const std::string fusion : {"factors", "products"}) {
    MethodCase fixture("hide-llava", {{"hide-llava.fusion", fusion, "test"}}, folder / "model");
    fixture.enter_second_stage();
    Pass pass;
    pass.answering = true;
    pass.slots = fixture.bank->answering();
    const GivenWeights given = {{0, torch::tensor({{0.3}, {0.9}})}, {1, torch::tensor({{0.7}, {0.1}})}};
    pass.given = &given;
    at::NoGradGuard no_grad;
    for (const auto& site : fixture.model->sites()) {
      const auto x = torch::randn({2, 3, site.linear->weight.size(1)});
      const auto& one = fixture.bank->at("stage-1", site.name).experts[0];
      const auto& two = fixture.bank->at("stage-2", site.name).experts[0];
      const auto product = [&](const torch::Tensor& a, const torch::Tensor& b) {
        return at::linear(at::linear(x, a), b) * 2;
      };
      auto expected = at::linear(x, site.linear->weight);
      if (site.linear->bias.defined()) expected = expected + site.linear->bias;
      const bool last = site.part != SitePart::projector && site.layer == fixture.model->layers() - 1;
      if (last)
        expected = expected + product(one.a, one.b) * given.at(0).view({2, 1, 1}) +
                   product(two.a, two.b) * given.at(1).view({2, 1, 1});
      else if (fusion == "factors")
        expected = expected + product(one.a + two.a, one.b + two.b);
      else
        expected = expected + product(one.a, one.b) + product(two.a, two.b);
      EXPECT_TRUE(at::allclose((*site.linear)(x, pass), expected, 1e-4, 1e-4)) << site.name << " " << fusion;
    }
    // Training sees the newest adapter alone.
    EXPECT_EQ(fixture.bank->training() & 3, fixture.bank->bit("stage-2"));
    for (const auto& [name, tensor] : fixture.bank->trained()) EXPECT_EQ(name.rfind("stage-2:", 0), 0u) << name;
  }
}

}  // namespace
}  // namespace asr
