// Presets, ablations and design variants at the level of options, losses and memory.
#include "spectral/memory.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

const auto kWide = at::TensorOptions().dtype(at::kDouble);

struct Setting {
  Options options;
  torch::Tensor descriptor = torch::rand({3, 54}, at::kDouble) * 0.5,
                posterior = torch::randn({3, 4}, at::kDouble).softmax(-1);
  PrototypeTensors prototypes = random_prototypes(3, {});

  LossTerms run(Implementation implementation = Implementation::automatic) const {
    return SpectralLoss(prototypes, options, kWide, implementation)(descriptor, posterior);
  }
  // sum over skills of weight * squared whitened distance, by a loop over the dimensions `used`.
  double expected_distance(int64_t b, int64_t s, const std::vector<int64_t>& used, bool mean) const {
    double sum = 0;
    for (int64_t i : used) {
      const double x = (descriptor[b][i] - prototypes.mean[s][i]).item<double>();
      sum += x * x / prototypes.variance[s][i].item<double>();
    }
    return mean ? sum / static_cast<double>(used.size()) : sum;
  }
};

std::vector<int64_t> dimensions(int64_t begin, int64_t end) {
  std::vector<int64_t> out;
  for (int64_t half : {0, 27})
    for (int64_t i = begin; i < end; ++i) out.push_back(half + i);
  return out;
}

TEST(Presets, AreTheTableOfTheSpecification) {
  const char* keys[] = {"frequency",     "bin_edge",   "dc",          "bin_statistic",
                        "peak_dc",       "peak_power", "fft_norm",    "token_norm",
                        "second_moment", "eps_mode",   "mahalanobis", "confidence",
                        "unseen_skills", "kl",         "floor_at"};
  const std::map<std::string, std::vector<std::string>> rows = {
      {"paper",
       {"raw", "left", "keep", "sum", "include", "raw", "backward", "yes", "std", "add", "sum", "gradient", "skip",
        "half", "update"}},
      {"reference",
       {"centered", "right", "keep", "sum", "include", "fraction", "ortho", "no", "variance", "clamp", "mean",
        "gradient", "renormalize", "half", "update"}},
      {"sound",
       {"centered", "left", "drop", "sum", "exclude", "fraction", "ortho", "yes", "std", "add", "mean", "detached",
        "skip", "half", "update"}}};
  for (const auto& [preset, values] : rows) {
    auto options = resolve_options(preset, {});
    const auto manifest = options.table().manifest()["spectral"];
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(manifest[keys[i]], values[i]) << preset << " " << keys[i];
    EXPECT_EQ(manifest["covariance_floor"], preset == "sound" ? 1e-6 : 1e-4);
    EXPECT_EQ(manifest["alpha"], 0.9);
    EXPECT_EQ(manifest["tau_skill"], 0.2);
    EXPECT_EQ(manifest["tau_mah"], 1.0);
    EXPECT_EQ(manifest["lambda_ang"], 0.1);
    EXPECT_EQ(manifest["eps"], 1e-8);
  }
}

TEST(Presets, ComeBeforeSingleOptionsWhereverTheyStand) {
  const auto options = resolve_options(
      "sound", {{"spectral.dc", "keep", "x"}, {"spectral.preset", "paper", "x"}, {"spectral.eps", "1e-6", "x"}});
  EXPECT_EQ(options.spectral.frequency, Frequency::raw);
  EXPECT_EQ(options.spectral.dc, Dc::keep);
  EXPECT_EQ(options.spectral.eps, 1e-6);
}

TEST(Options, ContradictionsAndUnknownsAreRefused) {
  const auto message = [](std::vector<Assignment> list) { return error_of([&] { resolve_options("sound", list); }); };
  EXPECT_CONTAINS(message({{"spectral.preset", "sund", "x"}}), "did you mean 'sound'?");
  EXPECT_CONTAINS(message({{"spectral.taumah", "3", "x"}}), "did you mean 'spectral.tau_mah'?");
  EXPECT_CONTAINS(message({{"spectral.covariance_floor", "0", "x"}}), "contradicts");
  EXPECT_CONTAINS(message({{"spectral.alpha", "1", "x"}}), "never learn");
  EXPECT_CONTAINS(message({{"spectral.tau_skill", "1", "x"}}), "empty");
  EXPECT_CONTAINS(message({{"asr.prototypes", "mean", "x"}, {"asr.spectrum", "raw", "x"}}), "contradicts");
  EXPECT_CONTAINS(message({{"spectral.tau_mah", "0", "x"}}), "number from");
}

TEST(Variants, RadialAndAngularUseTheirEntriesOnly) {
  torch::manual_seed(1);
  for (bool mean : {true, false})
    for (auto implementation : {Implementation::reference, Implementation::fused}) {
      Setting s;
      s.options.spectral.mahalanobis = mean ? Mahalanobis::mean : Mahalanobis::sum;
      s.options.asr.weighting = Weighting::one;
      const auto expect = [&](const std::vector<int64_t>& used, bool kl) {
        const auto terms = s.run(implementation);
        double total = 0;
        for (int64_t b = 0; b < 3; ++b)
          for (int64_t k = 0; k < 3; ++k) {
            const double d2 = s.expected_distance(b, k, used, mean);
            EXPECT_NEAR(terms.distance[b][k].item<double>(), d2, 1e-12 * std::max(1.0, d2));
            total +=
                s.posterior[b][k].item<double>() * (d2 + (kl ? 0.1 * terms.divergence[b][k].item<double>() : 0)) / 3;
          }
        EXPECT_NEAR(terms.loss.item<double>(), total, 1e-10 * total);
      };
      expect(dimensions(0, 27), true);
      s.options.asr.spectrum = Spectrum::radial;
      expect(dimensions(0, 8), false);
      s.options.asr.spectrum = Spectrum::angular;
      expect(dimensions(8, 24), true);
    }
}

TEST(Variants, WithoutAngularTermConfidenceOrGeometry) {
  torch::manual_seed(2);
  Setting s;
  const auto full = s.run();
  s.options.spectral.lambda_ang = 0;
  const auto plain = s.run();
  EXPECT_LT(plain.loss.item<double>(), full.loss.item<double>());
  const auto weighted = (plain.weight * (s.posterior.narrow(1, 0, 3) * plain.distance).sum(1)).mean();
  EXPECT_NEAR(plain.loss.item<double>(), weighted.item<double>(), 1e-12);
  s.options.asr.weighting = Weighting::one;
  EXPECT_TRUE(s.run().weight.eq(1).all().item<bool>());
  s.options.asr.weighting = Weighting::fixed;
  s.options.asr.fixed_weight = 0.25;
  EXPECT_TRUE(s.run().weight.eq(0.25).all().item<bool>());
  EXPECT_EQ(s.run(Implementation::reference).loss.item<double>(),
            s.run(Implementation::reference).per_sample.mean().item<double>());
}

TEST(Variants, GlobalTaskMeanAndHard) {
  torch::manual_seed(3);
  Setting s;
  s.options.asr.prototypes = Prototypes::task;
  const SpectralLoss task(s.prototypes, s.options, kWide);
  EXPECT_TRUE(at::allclose(task.skill_weights(s.posterior), torch::full({3, 3}, 1.0 / 3, at::kDouble)));
  s.options.asr.prototypes = Prototypes::global;
  Setting one = s;
  one.prototypes = random_prototypes(1, {});
  EXPECT_TRUE(SpectralLoss(one.prototypes, one.options, kWide).skill_weights(one.posterior).eq(1).all().item<bool>());

  s.options.asr.prototypes = Prototypes::mean;
  const auto precision = SpectralLoss(s.prototypes, s.options, kWide).target().precision;
  EXPECT_NEAR(precision[0][0].item<double>(), 1 / s.prototypes.variance.mean().item<double>() / 54, 1e-12);
  EXPECT_LT((precision - precision[0][0]).abs().max().item<double>(), 1e-15);

  s.options.asr.prototypes = Prototypes::skill;
  s.options.asr.skill = SkillMode::hard;
  s.posterior = torch::tensor({{0.1, 0.6, 0.2, 0.1}, {0.05, 0.05, 0.2, 0.7}, {0.4, 0.3, 0.2, 0.1}}, at::kDouble);
  const auto expected =
      torch::tensor({{0.0, 1.0, 0.0}, {0.0, 0.0, 0.0}, {1.0, 0.0, 0.0}}, at::kDouble);  // skill 3 has no prototype
  EXPECT_TRUE(at::equal(SpectralLoss(s.prototypes, s.options, kWide).skill_weights(s.posterior), expected));
}

TEST(Variants, UnseenSkillsSkipOrRenormalize) {
  Setting s;
  s.posterior = torch::tensor({{0.1, 0.2, 0.2, 0.5}, {0.0, 0.0, 0.0, 1.0}, {0.5, 0.5, 0.0, 0.0}}, at::kDouble);
  EXPECT_TRUE(
      at::equal(SpectralLoss(s.prototypes, s.options, kWide).skill_weights(s.posterior), s.posterior.narrow(1, 0, 3)));
  s.options.spectral.unseen_skills = UnseenSkills::renormalize;
  const auto expected = torch::tensor({{0.2, 0.4, 0.4}, {0.0, 0.0, 0.0}, {0.5, 0.5, 0.0}}, at::kDouble);
  EXPECT_TRUE(at::allclose(SpectralLoss(s.prototypes, s.options, kWide).skill_weights(s.posterior), expected));
}

TEST(Variants, RawMapsMatchTheirMean) {
  torch::manual_seed(4);
  Options options;
  options.asr.spectrum = Spectrum::raw;
  PrototypeTensors prototypes;
  prototypes.skill = torch::tensor({0, 2});
  prototypes.map = torch::rand({2, 3, 4}, at::kDouble);
  const auto attention = random_attention({2, 1, 2, 2, 3, 4}).requires_grad_();
  const auto posterior = torch::tensor({{0.5, 0.2, 0.3}, {0.1, 0.1, 0.8}}, at::kDouble);
  const SpectralEncoder encoder(3, 4, options.spectral);
  const auto maps = encoder.maps(attention, token_weights(torch::ones({2, 2}), torch::ones({2, 2})));
  const auto terms = SpectralLoss(prototypes, options, kWide).raw(maps, posterior);
  double expected = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t s = 0; s < 2; ++s) {
      const auto distance = (maps[b].mean(0) - prototypes.map[s]).square().sum() / prototypes.map[s].square().sum();
      EXPECT_NEAR(terms.distance[b][s].item<double>(), distance.item<double>(), 1e-12);
      expected += posterior[b][s * 2].item<double>() * distance.item<double>() / 2;
    }
  EXPECT_NEAR(terms.loss.item<double>(), expected, 1e-12);
  EXPECT_GT(gradients(terms.loss, {attention})[0].abs().max().item<double>(), 0);
  EXPECT_CONTAINS(error_of([&] { SpectralLoss({torch::tensor({0}), {}, {}, {}, {}}, options, kWide); }), "mean maps");
}

TEST(Loss, EmptyMemoryIsZeroWithZeroGradient) {
  Options options;
  const auto descriptor = torch::rand({2, 54}, at::kDouble).requires_grad_();
  for (auto implementation : {Implementation::reference, Implementation::fused}) {
    const auto terms =
        SpectralLoss({}, options, kWide, implementation)(descriptor, torch::full({2, 3}, 1.0 / 3, at::kDouble));
    EXPECT_EQ(terms.loss.item<double>(), 0);
    EXPECT_TRUE(terms.weight.eq(1).all().item<bool>());
    EXPECT_TRUE(gradients(terms.loss, {descriptor})[0].eq(0).all().item<bool>());
  }
}

TEST(Loss, BadInputIsNamed) {
  Setting s;
  const auto message = [&](const std::function<void()>& action) { return error_of(action); };
  EXPECT_CONTAINS(message([&] {
                    check_posterior(torch::tensor({{0.5, 0.4}}), SkillMode::soft);
                  }),
                  "sample 0 is no distribution");
  EXPECT_CONTAINS(message([&] { check_posterior(torch::tensor({{1.5, -0.5}}), SkillMode::soft); }), "no distribution");
  EXPECT_CONTAINS(message([&] {
                    check_posterior(torch::tensor({{double(NAN), 1.0}}), SkillMode::soft);
                  }),
                  "no distribution");
  EXPECT_CONTAINS(message([&] { check_posterior(torch::tensor({{0.5, 0.5}}), SkillMode::oracle); }), "one-hot");
  EXPECT_CONTAINS(message([&] { check_posterior(torch::ones({3}), SkillMode::soft); }), "expected [B, skills]");
  EXPECT_CONTAINS(
      message([&] { SpectralLoss(s.prototypes, s.options, kWide)(s.descriptor, s.posterior.narrow(1, 0, 2)); }),
      "holds skill 2");
  EXPECT_CONTAINS(
      message([&] { SpectralLoss(s.prototypes, s.options, kWide)(s.descriptor.narrow(1, 0, 9), s.posterior); }),
      "expected [B, 54]");
  auto bad = s.prototypes;
  bad.variance = -bad.variance;
  EXPECT_CONTAINS(message([&] { SpectralLoss(bad, s.options, kWide); }), "negative");
  bad = s.prototypes;
  bad.mean = bad.mean / 0;
  EXPECT_CONTAINS(message([&] { SpectralLoss(bad, s.options, kWide); }), "NaN or infinite");
  bad = s.prototypes;
  bad.angular = bad.angular.narrow(1, 0, 3);
  EXPECT_CONTAINS(message([&] { SpectralLoss(bad, s.options, kWide); }), "memory angular has shape");
}

}  // namespace
}  // namespace asr
