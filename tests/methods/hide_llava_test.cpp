// HiDe-LLaVA: anchors are means over a stage or what the released code makes of them, weights a softmax of cosines,
// factors fused below the last layer.
#include <cmath>

#include "methods/terms/released_anchors.h"
#include "tests/methods/every_kind.h"
#include "tests/methods/held_state.h"
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

// The nearest number of eight binary digits, of two the even one.
double coarse(double value) {
  int exponent = 0;
  const double digits = std::frexp(value, &exponent) * 256;
  return std::ldexp(std::nearbyint(digits), exponent - 8);
}

// Every sum, count and quotient has eight binary digits.
double coarse_mean(double start, const std::vector<std::pair<double, int>>& sums_of_rows) {
  double mean = coarse(start), count = 1;
  for (const auto& [sum, rows] : sums_of_rows) {
    const double all = coarse(coarse(mean * count) + coarse(sum));
    count = coarse(count + rows);
    mean = coarse(all / count);
  }
  return mean;
}

// Batches of 24, as in the authors' scripts. The numbers of the first four are those of a simulation in Python: the
// count stays at 8192, and a batch more or less is lost in the sum.
TEST(HideLlava, ACoarseRunningMeanStandsStillInTheEnd) {
  const auto after = [](int batches, const torch::Tensor& one) {
    const auto sums = (one * 24).to(at::kDouble).unsqueeze(0).expand({batches, one.numel()});
    return coarse_running_mean(at::full({1, one.numel()}, 0.1), sums, std::vector<int64_t>(size_t(batches), 24));
  };
  const auto three = torch::tensor({1.0, 0.3, 0.07});
  EXPECT_TRUE(after(1, three).equal(torch::tensor({{0.96484375f, 0.291015625f, 0.0712890625f}})));
  EXPECT_TRUE(after(50, three).equal(torch::tensor({{1.0f, 0.306640625f, 0.06982421875f}})));
  EXPECT_TRUE(after(200, three).equal(torch::tensor({{1.0f, 0.283203125f, 0.0654296875f}})));
  EXPECT_TRUE(after(500, three).equal(torch::tensor({{1.0f, 0.25f, 0.0625f}})));
  auto generator = at::detail::createCPUGenerator(3);
  const auto start = at::randn({1, 5}, generator, at::CPU(at::kFloat)) * 0.1;
  const auto sums = at::randn({400, 5}, generator, at::CPU(at::kDouble)) * 6 + 9;
  const auto found = coarse_running_mean(start, sums, std::vector<int64_t>(400, 24));
  for (int64_t i = 0; i < 5; ++i) {
    std::vector<std::pair<double, int>> batches;
    for (int64_t b = 0; b < 400; ++b) batches.emplace_back(sums[b][i].item<float>(), 24);
    EXPECT_EQ(found[0][i].item<double>(), coarse_mean(start[0][i].item<double>(), batches)) << i;
  }
}

// Three stages in all, two of them seen: the third has noise for an anchor, takes its part of the weights and adds
// nothing.
TEST(HideLlava, AnchorsMayBeThoseOfTheReleasedCode) {
  struct Case {
    std::string anchors, experts;
  };
  torch::Tensor noise;
  for (const auto& c : {Case{"released", "3"}, Case{"means", "3"}, Case{"released", "0"}}) {
    SCOPED_TRACE(c.anchors + c.experts);
    // So warm that noise, which is near nothing, counts for something.
    OwnModelCase fixture("hide-llava",
                         MethodOptions{{"anchors", c.anchors}, {"experts", c.experts}, {"temperature", "0.7"}});
    std::vector<torch::Tensor> anchors;
    for (int stage = 1; stage <= 2; ++stage) {
      const auto set = fixture->data(static_cast<size_t>(stage) * 3);
      fixture.begin(stage, set);
      auto context = fixture->stage_context(stage, set);
      fixture->method->after_stage(context);
      if (!noise.defined()) noise = held_tensor(*fixture->method, "noise");
      std::vector<torch::Tensor> sums;
      for (const auto& rows : {range(0, 8), range(8, 12)}) {  // batches of eight
        const auto [image, text] = base_embeddings(*fixture.fixture, set.rows(rows));
        sums.push_back(at::cat({image, text}, 1).sum(0));
      }
      auto anchor = (sums[0] + sums[1]) / 12;
      for (int64_t i = 0; i < anchor.numel() && c.anchors == "released"; ++i)
        anchor[i] = coarse_mean(noise[stage - 1][i].item<double>(),
                                {{sums[0][i].item<double>(), 8}, {sums[1][i].item<double>(), 4}});
      anchors.push_back(anchor);
      const auto held = held_tensor(*fixture->method, "anchors")[stage - 1];
      // Sums that differ in their last digit may round to neighbours, once for either batch.
      const double apart = c.anchors == "released" ? 0x1p-6 : 1e-5;
      EXPECT_TRUE(held.to(at::kDouble).allclose(anchor, apart, 1e-6));
      EXPECT_EQ(held.equal(held.to(at::kBFloat16).to(at::kFloat)), c.anchors == "released");
    }
    if (c.experts == "3") anchors.push_back(noise[2].to(at::kDouble));
    const auto batch = fixture->data(6).rows(range(0, 5));
    const auto given = fixture->pass(batch, 2, true).given;
    ASSERT_EQ(given.size(), 2u);
    const auto [image, text] = base_embeddings(*fixture.fixture, batch);
    const int64_t width = image.size(1);
    for (int64_t b = 0; b < 5; ++b) {
      std::vector<double> weights;
      double sum = 0;
      for (const auto& anchor : anchors) {
        const double near = cosine(image[b], anchor.narrow(0, 0, width)) +
                            cosine(text[b], anchor.narrow(0, width, anchor.numel() - width));
        weights.push_back(std::exp(near / 2 / 0.7));
        sum += weights.back();
      }
      for (size_t k = 0; k < 2; ++k) EXPECT_NEAR(given.at(k)[b][0].item<double>(), weights[k] / sum, 5e-3) << b;
      const double rest = 1 - given.at(0)[b][0].item<double>() - given.at(1)[b][0].item<double>();
      EXPECT_NEAR(rest, c.experts == "3" ? weights[2] / sum : 0, 5e-3);
      EXPECT_EQ(rest > 0.05, c.experts == "3");
    }
  }
  ASSERT_EQ(noise.size(0), 3);
  const auto n = static_cast<double>(noise.numel());
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.5 / std::sqrt(n));
  EXPECT_NEAR(noise.square().mean().sqrt().item<double>(), 0.1, 0.5 / std::sqrt(2 * n));
  EXPECT_TRUE(anchor_noise(8, noise.size(1), 1).narrow(0, 0, 3).equal(noise));  // whatever their number
}

TEST(HideLlava, RunsWithAnchorsOfTheReleasedCode) {
  expect_runs_on_every_kind("hide-llava", {{"hide-llava.anchors", "released"}, {"hide-llava.experts", "3"}});
}

TEST(HideLlava, RefusesFewerExpertsThanStages) {
  const auto method = std::move(make_methods("hide-llava", {{"hide-llava.experts", "2", "test"}})[0]);
  PhasePlan plan;
  plan.stages = 3;
  std::vector<Phase> phases(1);
  EXPECT_CONTAINS(message_of([&] { method->plan(plan, phases); }),
                  "hide-llava.experts: 2 are fewer than the 3 stages of the stream; 0 takes those seen");
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
