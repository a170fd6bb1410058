// The anchored loss and shrinkage against the definitions written out in loops, and its gradient by differences.
#include "spectral/anchored_loss.h"

#include "spectral/memory.h"
#include "tensor/torch_compat.h"
#include "tests/support/tensors.h"

namespace asr {
namespace {

const auto kDoubles = at::TensorOptions().dtype(at::kDouble);

double at_place(const torch::Tensor& table, int64_t i, int64_t j) {
  return table[i][j].item<double>();
}

// Entries of a descriptor of 8 radial and 8 angular bins, in both halves, without radius and angle of the peak.
std::vector<int64_t> entries_of(Spectrum spectrum) {
  std::vector<int64_t> out;
  for (const int64_t half : {0, 27})
    for (int64_t i = 0; i < 27; ++i) {
      const bool radial = i < 8, angular = i >= 8 && i < 24, power = i == 26;
      const bool wanted = spectrum == Spectrum::radial    ? radial
                          : spectrum == Spectrum::angular ? angular
                                                          : radial || angular || power;
      if (wanted) out.push_back(half + i);
    }
  return out;
}

struct AnchoredCase {
  Options options;
  PrototypeTensors prototypes = random_prototypes(3, {});
  torch::Tensor seen = torch::rand({5, 54}, kDoubles), anchor = torch::rand({5, 54}, kDoubles);
  torch::Tensor posterior = torch::rand({5, 4}, kDoubles);  // the last skill has no prototype
  std::vector<bool> has = {true, true, false, true, true};

  AnchoredCase() { posterior = posterior / posterior.sum(1, true); }

  torch::Tensor found(const torch::Tensor& now) const {
    const auto weights = anchor_weights(prototypes, options, kDoubles);
    auto known = torch::zeros({5, 1}, kDoubles);
    for (int64_t i = 0; i < 5; ++i) known[i][0] = has[static_cast<size_t>(i)] ? 1 : 0;
    const bool by_skill = options.asr.metric == AnchorMetric::posterior;
    const auto p =
        weights.of_samples(by_skill ? posterior.narrow(1, 0, 3).contiguous() : torch::ones({5, 1}, kDoubles)) * known;
    return anchored_loss(weights, {now, anchor, p, p.sum().item<double>()});
  }

  // The definition: p of every sample and entry, scaled to the mean 1 / mean(sigma2), then the mean.
  double by_hand() const {
    const auto used = entries_of(options.asr.spectrum);
    std::vector<std::vector<double>> p;
    double sigma2 = 0, p_sum = 0, weighed = 0, count = 0;
    for (int64_t k = 0; k < 3; ++k)
      for (const int64_t d : used) sigma2 += at_place(prototypes.variance, k, d) / (3.0 * double(used.size()));
    for (int64_t i = 0; i < 5; ++i) {
      if (!has[static_cast<size_t>(i)]) continue;
      for (const int64_t d : used) {
        double value = 0;
        for (int64_t k = 0; k < 3; ++k) {
          const double inverse = 1 / at_place(prototypes.variance, k, d);
          if (options.asr.metric == AnchorMetric::posterior) value += at_place(posterior, i, k) * inverse;
          if (options.asr.metric == AnchorMetric::pooled) value += inverse / 3;
        }
        if (options.asr.metric == AnchorMetric::identity) value = 1 / sigma2;
        const double way = at_place(seen, i, d) - at_place(anchor, i, d);
        p_sum += value;
        weighed += value * way * way;
        ++count;
      }
    }
    const double scale = 1 / sigma2 / (p_sum / count);
    return scale * weighed / count;
  }
};

TEST(AnchoredLoss, IsItsDefinitionInEveryMetric) {
  torch::manual_seed(3);
  AnchoredCase c;
  for (const auto spectrum : {Spectrum::full, Spectrum::radial, Spectrum::angular})
    for (const auto metric : {AnchorMetric::posterior, AnchorMetric::pooled, AnchorMetric::identity}) {
      c.options.asr.spectrum = spectrum;
      c.options.asr.metric = metric;
      const double expected = c.by_hand();
      EXPECT_NEAR(c.found(c.seen).item<double>(), expected, 1e-12 * expected)
          << enum_name(spectrum) << " " << enum_name(metric);
    }
}

TEST(AnchoredLoss, HasTheSlopeThatDifferencesShow) {
  torch::manual_seed(4);
  AnchoredCase c;
  const auto seen = c.seen.clone().requires_grad_();
  const auto slope = gradients(c.found(seen), {seen})[0];
  for (int64_t i = 0; i < 5; ++i)
    for (const int64_t d : {0, 9, 20, 24, 25, 26, 30, 51, 52, 53}) {
      auto up = c.seen.clone(), down = c.seen.clone();
      up[i][d] += 1e-4;
      down[i][d] -= 1e-4;
      const double expected = (c.found(up) - c.found(down)).item<double>() / 2e-4;
      EXPECT_NEAR(at_place(slope, i, d), expected, 1e-7 * (1 + std::abs(expected))) << i << " " << d;
    }
  EXPECT_EQ(slope[2].abs().max().item<double>(), 0) << "a sample without an anchor";
  EXPECT_EQ(slope.select(1, 24).abs().max().item<double>(), 0) << "the peak's radius";
  EXPECT_EQ(slope.select(1, 52).abs().max().item<double>(), 0) << "the spread of the peak's angle";
}

TEST(AnchoredLoss, IsZeroWithoutAnAnchorAndAtTheAnchor) {
  AnchoredCase c;
  EXPECT_EQ(c.found(c.anchor).item<double>(), 0);
  c.has.assign(5, false);
  EXPECT_EQ(c.found(c.seen).item<double>(), 0);
}

TEST(Shrinkage, PullsVariancesTowardsThePooledOneByCount) {
  torch::manual_seed(5);
  auto prototypes = random_prototypes(2, {});
  prototypes.count = torch::tensor({1, 60}, at::kLong);
  Options options;
  EXPECT_EQ(options.memory.shrinkage, 20);
  const auto read = variances_as_read(prototypes, options);
  for (const int64_t d : {0, 25, 53}) {
    const double first = at_place(prototypes.variance, 0, d), second = at_place(prototypes.variance, 1, d);
    const double pooled = (1 * first + 60 * second) / 61;
    EXPECT_NEAR(at_place(read, 0, d), (1 * first + 20 * pooled) / 21, 1e-14);
    EXPECT_NEAR(at_place(read, 1, d), (60 * second + 20 * pooled) / 80, 1e-14);
  }
  options.memory.shrinkage = 0;
  EXPECT_TRUE(at::equal(variances_as_read(prototypes, options), prototypes.variance.clamp_min(1e-6)));
  EXPECT_EQ(resolve_options("paper", {}).memory.shrinkage, 0);
  EXPECT_EQ(resolve_options("reference", {}).memory.shrinkage, 0);
}

// One sample has variance 0, and its prototype counted every step away from it a million times.
TEST(Shrinkage, ASkillOfOneSampleCannotBlowTheLossUp) {
  torch::manual_seed(6);
  Options options;
  options.asr.weighting = Weighting::one;
  options.spectral.lambda_ang = 0;
  StageMoments stage(options);
  const auto descriptor = 0.5 + 0.1 * torch::randn({41, 54}, kDoubles);
  auto posterior = torch::zeros({41, 2}, kDoubles);
  posterior.select(1, 0).fill_(1);
  posterior[40] = torch::tensor({0.0, 1.0}, at::kDouble);
  stage.add(descriptor, torch::full({41, 8}, 0.125, kDoubles), posterior, {}, 0);
  PrototypeMemory memory;
  memory.options = options;
  memory.take(stage);
  const auto loss = [&](double n0) {
    options.memory.shrinkage = n0;
    const auto one = torch::tensor({{0.0, 1.0}}, at::kDouble);
    return SpectralLoss(memory.tensors(), options, kDoubles)(descriptor.narrow(0, 0, 1), one).loss.item<double>();
  };
  EXPECT_GT(loss(0), 1000);
  EXPECT_LT(loss(20), 10);  // (20/21)^-1 of two squared deviations, about 2
  EXPECT_EQ(memory.prototypes[1].variance[0], options.spectral.covariance_floor) << "what is stored is plain";
}

}  // namespace
}  // namespace asr
