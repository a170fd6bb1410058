// Probes against finite differences and plain sums, over one process and several.
#include "data/probe.h"

#include "data/drawn_rows.h"
#include "data/sample_copies.h"
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
  const auto norms =
      sample_gradients(c.probe(3, c.alone), tensors, [](const torch::Tensor& g) { return g.norm(2, 1, true); });
  EXPECT_TRUE(norms.allclose(found.norm(2, 1, true), 1e-5, 1e-8));
}

// The sum over samples of the mean loss of their own answer tokens, under the weights that the probe gives.
ProbeLoss summed_loss(const ProbeCase& c) {
  return [&c](const SampleBatch& batch, const Pass& pass) {
    Want want;
    want.loss = false;
    want.logits = true;
    const auto losses =
        at::cross_entropy_loss(c.model->forward(batch.input, pass, want).logits,
                               batch.input.labels.masked_select(batch.input.labels.ge(0)), {}, at::Reduction::None);
    torch::Tensor sum = torch::zeros({});
    int64_t first = 0;
    for (int64_t b = 0; b < batch.size(); ++b) {
      const auto tokens = batch.input.labels[b].ge(0).sum().item<int64_t>();
      sum = sum + losses.narrow(0, first, tokens).mean();
      first += tokens;
    }
    return sum;
  };
}

TEST(Probe, SampleGradientsTogetherAreThoseOneByOne) {
  ProbeCase c;
  auto probe = c.probe(7, c.alone);
  probe.batch = 3;  // blocks of 3, 3 and 1
  probe.loss = summed_loss(c);
  std::vector<torch::Tensor> all, few;
  for (const auto& [name, tensor] : c.parameters) {
    all.push_back(tensor);
    if (name.find("layers.1.") != std::string::npos) few.push_back(tensor);
  }
  ASSERT_EQ(few.size(), 4u);
  const std::vector<torch::Tensor> only_b = {few[1], few[3]};  // in keeplora's runs A does not learn
  for (const auto& chosen : {all, few, only_b}) {
    ASSERT_TRUE(SampleCopies::fit(c.sites, chosen));
    const auto one_by_one = sample_gradients(probe, chosen);
    const auto together = sample_gradients_together(probe, c.sites, chosen);
    ASSERT_EQ(together.sizes(), one_by_one.sizes());
    // Sums of products of float32, in another order; relative to the length of each row.
    const auto off = (together - one_by_one).norm(2, 1) / one_by_one.norm(2, 1);
    EXPECT_GT(one_by_one.norm(2, 1).min().item<double>(), 0);
    EXPECT_LT(off.max().item<double>(), 1e-4);
  }
  for (const auto& [name, tensor] : c.parameters) EXPECT_TRUE(tensor.requires_grad()) << name;
  EXPECT_TRUE(c.sites[0].linear->slots[0].experts[0].a.is_same(c.parameters[0].second)) << "in its place again";
}

TEST(Probe, ExpertsBehindAGateGoOneByOne) {
  ProbeCase c;
  auto& gate = c.sites[0].linear->slots[0].training;
  gate.kind = GateKind::router;
  gate.router = torch::zeros({1, c.sites[0].linear->weight.size(1)});
  const std::vector<torch::Tensor> gated = {c.parameters[0].second}, plain = {c.parameters[2].second};
  EXPECT_FALSE(SampleCopies::fit(c.sites, gated));
  EXPECT_FALSE(SampleCopies::fit(c.sites, {torch::zeros({2, 2})})) << "stands nowhere";
  EXPECT_TRUE(SampleCopies::fit(c.sites, plain));
  auto probe = c.probe(4, c.alone);
  probe.loss = summed_loss(c);
  EXPECT_TRUE(sample_gradients_together(probe, c.sites, gated).equal(sample_gradients(probe, gated)));
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

torch::Tensor answer_losses(const ProbeCase& c, const SampleBatch& batch) {
  std::vector<double> out;
  for (int64_t b = 0; b < batch.size(); ++b) {
    auto one = batch.input;
    const auto row = torch::tensor({b}, at::kLong);
    for (auto* part : {&one.ids, &one.labels, &one.mask, &one.question, &one.functional})
      if (part->defined()) *part = part->index_select(0, row);
    for (auto* part : {&one.features, &one.pixels})
      if (part->defined()) *part = part->index_select(0, row);
    out.push_back(c.model->forward(one, Pass{}, Want{}).loss.item<double>());
  }
  return torch::tensor(out, at::kDouble);
}

TEST(Probe, LossesWithABlankPicture) {
  ProbeCase c;
  auto probe = c.probe(5, c.alone);
  probe.batch = 2;
  const auto found = blank_losses(probe, [&](const SampleBatch& batch) { return answer_losses(c, batch); });
  ASSERT_EQ(found.numel(), 5);
  double apart = 0;
  for (int64_t i = 0; i < 5; ++i) {
    at::NoGradGuard no_grad;
    const auto blank = c.set->composed({{kBlankPicture, 2 + i}});
    EXPECT_NEAR(found[i].item<double>(), c.model->forward(blank.input, Pass{}, Want{}).loss.item<double>(), 1e-5);
    apart = std::max(apart, std::abs(found[i].item<double>() - c.loss({2 + i})));
  }
  EXPECT_GT(apart, 1e-4);
}

// What one process finds; the team's members each have a model of their own, as processes have.
struct Findings {
  std::vector<torch::Tensor> weights;
  torch::Tensor samples, together, moments, blank;
};

Findings find_all(const Team& team) {
  at::AutoGradMode with_gradient(true);
  ProbeCase c;
  auto probe = c.probe(37, team);
  probe.batch = 2;
  auto summed = probe;
  summed.loss = summed_loss(c);
  return {weight_gradients(probe, {c.sites[0], c.sites[1]}, 1), sample_gradients(probe, {c.parameters[0].second}),
          sample_gradients_together(summed, c.sites, {c.parameters[0].second}),
          input_moments(probe, {c.sites[1]})[0].second,
          blank_losses(probe, [&](const SampleBatch& batch) { return answer_losses(c, batch); })};
}

TEST(Probe, AnyNumberOfProcessesFindsTheSameBits) {
  const auto whole = find_all(Team());
  for (const int64_t size : {2, 3})
    as_team(size, [&](const Team& team) {
      const auto found = find_all(team);
      for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(found.weights[i].equal(whole.weights[i])) << size << " " << i;
      EXPECT_TRUE(found.samples.equal(whole.samples)) << size;
      EXPECT_TRUE(found.moments.equal(whole.moments)) << size;
      EXPECT_TRUE(found.together.equal(whole.together)) << size;
      EXPECT_TRUE(found.blank.equal(whole.blank)) << size;
    });
}

TEST(Probe, BadRequestsAreRefused) {
  ProbeCase c;
  auto none = c.probe(0, c.alone);
  EXPECT_CONTAINS(error_of([&] { weight_gradients(none, c.sites, 1); }), "no sample to probe");
  Probe far{*c.model, *c.set, {40}, c.alone};
  EXPECT_CONTAINS(error_of([&] { blank_losses(far, {}); }), "there is no row 40 in 40 samples");
  EXPECT_CONTAINS(error_of([&] { sample_gradients(c.probe(2, c.alone), {}); }), "no parameter");
  Linear unused{torch::zeros({4, 4}), {}};
  EXPECT_CONTAINS(error_of([&] {
                    input_moments(c.probe(2, c.alone), {{"unused", &unused}});
                  }),
                  "unused: no pass goes through it");
}

}  // namespace
}  // namespace asr
