// Probes against finite differences and plain sums, over one process and several.
#include "data/probe.h"

#include "data/drawn_rows.h"
#include "tests/data/support.h"
#include "tests/data/thread_team.h"

namespace asr {
namespace {

struct ProbeCase {
  std::unique_ptr<Stream> stream = small_world();
  std::unique_ptr<TinyBackbone> model = small_model();
  std::shared_ptr<SampleSet> set = encoded_world(*stream, *model, nullptr);
  std::vector<AdapterSite> sites = model->sites();
  NamedParameters parameters = add_experts(sites, 2, 4, 3);
  const Team alone;

  ProbeCase() {
    at::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(5);
    for (auto& [name, tensor] : parameters)
      tensor.copy_(at::randn(tensor.sizes(), generator, at::CPU(at::kFloat)) * 0.1);
  }
  Probe probe(int64_t rows, const Team& team) const { return {*model, *set, range(2, 2 + rows), team}; }
  double loss(const std::vector<int64_t>& rows) const {
    at::NoGradGuard no_grad;
    return model->forward(set->rows(rows).input, Pass{}, Want{}).loss.item<double>();
  }
};

TEST(Probe, WeightGradientsAreThoseOfFiniteDifferences) {
  ProbeCase c;
  auto probe = c.probe(5, c.alone);
  probe.batch = 2;  // blocks of 2, 2 and 1 count by their samples
  const auto mean_loss = [&] { return (2 * c.loss({2, 3}) + 2 * c.loss({4, 5}) + c.loss({6})) / 5; };
  const auto found = weight_gradients(probe, c.sites, 1 << 30);
  ASSERT_EQ(found.size(), c.sites.size());
  for (const size_t s : {size_t(0), c.sites.size() - 1}) {
    auto& weight = c.sites[s].linear->weight;
    ASSERT_EQ(found[s].sizes(), weight.sizes());
    EXPECT_FALSE(weight.requires_grad()) << "frozen again";
    const auto largest = found[s].abs().argmax().item<int64_t>();
    const int64_t row = largest / weight.size(1), column = largest % weight.size(1);
    at::NoGradGuard no_grad;
    const double before = weight[row][column].item<double>(), step = 1e-2;
    weight[row][column] = before + step;
    const double up = mean_loss();
    weight[row][column] = before - step;
    const double down = mean_loss();
    weight[row][column] = before;
    const double expected = (up - down) / (2 * step);
    EXPECT_NEAR(found[s][row][column].item<double>(), expected, 0.02 * std::abs(expected) + 1e-5) << c.sites[s].name;
  }
}

TEST(Probe, SitesInGroupsGiveTheSame) {
  ProbeCase c;
  const auto together = weight_gradients(c.probe(6, c.alone), c.sites, 1 << 30);
  const auto apart = weight_gradients(c.probe(6, c.alone), c.sites, 1);
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_GT(together[i].abs().max().item<double>(), 0);
    EXPECT_LT((together[i] - apart[i]).abs().max().item<double>(), 1e-6);
  }
}

TEST(Probe, TheWeightThatThePassUsesIsProbed) {
  ProbeCase c;
  auto base = c.probe(4, c.alone);
  base.pass = Pass{0, nullptr};
  const auto off = weight_gradients(base, c.sites, 1 << 30);
  const auto on = weight_gradients(c.probe(4, c.alone), c.sites, 1 << 30);
  EXPECT_FALSE(off[0].allclose(on[0], 1e-4, 1e-7)) << "adapters change the gradient";
  auto& linear = *c.sites[0].linear;
  linear.merged = merged_weight(linear, 1);
  const auto merged = weight_gradients(c.probe(4, c.alone), {c.sites[0]}, 1 << 30);
  EXPECT_GT(merged[0].abs().max().item<double>(), 0);
  EXPECT_FALSE(linear.merged.requires_grad());
}

TEST(Probe, AGivenLossIsTaken) {
  ProbeCase c;
  auto twice = c.probe(4, c.alone);
  twice.loss = [plain = answer_loss(*c.model)](const SampleBatch& batch, const Pass& pass) {
    EXPECT_EQ(batch.info.size(), static_cast<size_t>(batch.size()));
    return plain(batch, pass) * 2;
  };
  const auto one = weight_gradients(c.probe(4, c.alone), {c.sites[0]}, 1),
             two = weight_gradients(twice, {c.sites[0]}, 1);
  EXPECT_TRUE(two[0].allclose(one[0] * 2, 1e-5, 1e-8));
}

TEST(Probe, SampleGradientsAreThoseOfSingleRows) {
  ProbeCase c;
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, tensor] : c.parameters) tensors.push_back(tensor);
  const auto found = sample_gradients(c.probe(3, c.alone), tensors);
  int64_t numbers = 0;
  for (const auto& tensor : tensors) numbers += tensor.numel();
  ASSERT_EQ(found.sizes(), (std::vector<int64_t>{3, numbers}));
  for (int64_t i = 0; i < 3; ++i) {
    c.model->forward(c.set->rows({2 + i}).input, Pass{}, Want{}).loss.backward();
    std::vector<torch::Tensor> flat;
    for (auto& tensor : tensors) {
      flat.push_back(tensor.grad().flatten().clone());
      tensor.mutable_grad() = torch::Tensor();
    }
    EXPECT_TRUE(found[i].allclose(at::cat(flat), 1e-5, 1e-8)) << i;
  }
  const auto norms = sample_gradients(c.probe(3, c.alone), tensors, [](const torch::Tensor& g) { return g.norm(); });
  EXPECT_TRUE(norms.allclose(found.norm(2, 1, true), 1e-5, 1e-8));
}

TEST(Probe, MomentsAreOfWhatALayerReads) {
  ProbeCase c;
  struct Recorder final : InputObserver {
    const Linear* of = nullptr;
    std::vector<torch::Tensor> seen;
    void see(const Linear& linear, const torch::Tensor& x) override {
      if (&linear == of) seen.push_back(x.reshape({-1, x.size(-1)}).to(at::kDouble));
    }
  };
  const auto found = input_moments(c.probe(5, c.alone), c.sites);
  ASSERT_EQ(found.size(), c.sites.size());
  at::NoGradGuard no_grad;
  for (const size_t s : {size_t(0), c.sites.size() - 1}) {
    Recorder recorder;
    recorder.of = c.sites[s].linear;
    Pass pass;
    pass.observer = &recorder;
    for (int64_t i = 2; i < 7; ++i) c.model->forward(c.set->rows({i}).input, pass, Want{});
    const auto x = at::cat(recorder.seen);
    EXPECT_EQ(found[s].count, x.size(0));
    EXPECT_TRUE(found[s].second.allclose(x.t().mm(x) / static_cast<double>(x.size(0)), 1e-6, 1e-9));
  }
}

TEST(Probe, LossesWithAndWithoutThePicture) {
  ProbeCase c;
  const auto found = picture_losses(c.probe(4, c.alone));
  ASSERT_EQ(found.with_picture.numel(), 4);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(found.with_picture[i].item<double>(), c.loss({2 + i}), 1e-6);
    at::NoGradGuard no_grad;
    const auto blank = c.set->composed({{kBlankPicture, 2 + i}});
    EXPECT_NEAR(found.with_blank[i].item<double>(), c.model->forward(blank.input, Pass{}, Want{}).loss.item<double>(),
                1e-6);
  }
  EXPECT_GT((found.with_picture - found.with_blank).abs().max().item<double>(), 1e-4);
}

// What one process finds; the team's members each have a model of their own, as processes have.
struct Findings {
  std::vector<torch::Tensor> weights;
  torch::Tensor samples, moments;
  PictureLosses losses;
};

Findings find_all(const Team& team) {
  at::AutoGradMode with_gradient(true);
  ProbeCase c;
  auto probe = c.probe(37, team);
  probe.batch = 2;
  return {weight_gradients(probe, {c.sites[0], c.sites[1]}, 1), sample_gradients(probe, {c.parameters[0].second}),
          input_moments(probe, {c.sites[1]})[0].second, picture_losses(probe)};
}

TEST(Probe, AnyNumberOfProcessesFindsTheSameBits) {
  const auto whole = find_all(Team());
  for (const int64_t size : {2, 3})
    as_team(size, [&](const Team& team) {
      const auto found = find_all(team);
      for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(found.weights[i].equal(whole.weights[i])) << size << " " << i;
      EXPECT_TRUE(found.samples.equal(whole.samples)) << size;
      EXPECT_TRUE(found.moments.equal(whole.moments)) << size;
      EXPECT_TRUE(found.losses.with_picture.equal(whole.losses.with_picture)) << size;
      EXPECT_TRUE(found.losses.with_blank.equal(whole.losses.with_blank)) << size;
    });
}

TEST(Probe, BadRequestsAreRefused) {
  ProbeCase c;
  auto none = c.probe(0, c.alone);
  EXPECT_CONTAINS(error_of([&] { weight_gradients(none, c.sites, 1); }), "no sample to probe");
  Probe far{*c.model, *c.set, {40}, c.alone};
  EXPECT_CONTAINS(error_of([&] { picture_losses(far); }), "there is no row 40 in 40 samples");
  EXPECT_CONTAINS(error_of([&] { sample_gradients(c.probe(2, c.alone), {}); }), "no parameter");
  Linear unused{torch::zeros({4, 4}), {}};
  EXPECT_CONTAINS(error_of([&] {
                    input_moments(c.probe(2, c.alone), {{"unused", &unused}});
                  }),
                  "unused: no pass goes through it");
}

}  // namespace
}  // namespace asr
