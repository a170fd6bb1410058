// What is anchored instead of spectra: each control is zero at a stage's first step, holds afterwards, and is the
// squared way that it says.
#include "methods/terms/anchor_controls.h"

#include "tests/methods/recomputation.h"

namespace asr {
namespace {

Settings control(const std::string& anchor) {
  return {{"asr.target", "anchor"},
          {"asr.gamma", "0"},
          {"asr.anchor_beta", "2"},
          {"asr.metric", "identity"},
          {"asr.anchor", anchor}};
}

double anchor_loss_at(const std::string& run, int step) {
  for (const auto& line : log_of(run))
    if (line.value("current_steps", 0) == step && line.contains("anchor_loss")) return line["anchor_loss"];
  return -1;
}

TEST(AnchorControls, AreZeroAtTheFirstStepAndHoldLater) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  for (const std::string kind :
       {"heads", "maps", "states", "logits", "projections", "phases", "adapters", "shuffled"}) {
    auto list = recomputed_run(folder, "asr", control(kind));
    list.push_back({"label", kind, "test"});
    const auto run = run_small(list, kind != "heads")[0];
    if (kind == "shuffled")
      EXPECT_GT(anchor_loss_at(run, 4), 1e-3) << "another sample's spectrum";
    else
      EXPECT_NEAR(anchor_loss_at(run, 4), 0, 1e-5) << kind;
    EXPECT_GT(anchor_loss_at(run, 5), 1e-3) << kind;
  }
}

// The mean of squared ways over entries and samples, in units of the mean variance of the anchors.
TEST(AnchorControls, AreTheSquaredWayOfWhatTheyName) {
  for (const std::string kind : {"heads", "maps", "states", "logits"}) {
    SCOPED_TRACE(kind);
    Recomputation again("asr", control(kind));
    const auto stage = again.whole_stage(1);
    const auto seen = [&] {
      at::NoGradGuard no_grad;
      Want want;
      want.loss = false;
      want.logits = want.pooled = true;
      want.tap_layers = again.config.run.tap_layers;
      const auto out = again.model->forward(stage.input, Pass{}, want);
      if (kind == "states") return at::cat({out.image, out.text}, 1).to(at::kDouble);
      if (kind == "logits") {
        const auto tokens = stage.input.labels.ge(0).sum(1);
        const auto log_p = out.logits.to(at::kDouble).log_softmax(1);
        std::vector<torch::Tensor> means;
        for (int64_t i = 0, first = 0; i < tokens.size(0); ++i) {
          const auto count = tokens[i].item<int64_t>();
          means.push_back(log_p.narrow(0, first, count).mean(0));
          first += count;
        }
        return at::stack(means);
      }
      const auto weights = row_weights(stage.input, out).to(at::kDouble);
      if (kind == "heads") {
        const SpectralEncoder encoder(out.attention.size(4), out.attention.size(5), Options().spectral,
                                      Implementation::reference);
        const auto each = encoder.details(out.attention.to(at::kDouble), weights).head_descriptor;  // [B, J, 27]
        return at::cat({each.narrow(2, 0, 24), each.narrow(2, 26, 1)}, 2).flatten(1);
      }
      auto map = out.attention.to(at::kDouble);
      map = map / map.sum({4, 5}, true).clamp_min(1e-30);
      map = (map * weights.view({weights.size(0), 1, 1, -1, 1, 1})).sum(3);
      return map.mean({1, 2}).flatten(1);
    };
    again.set(Recomputation::kFirstStage);
    const auto anchor = seen();
    again.set(Recomputation::kBefore);
    const auto floor = 1e-3 * anchor.var(0, false).mean();
    const auto unit = anchor.var(0, false).clamp_min(floor.item<double>()).mean();
    const double expected = 2 * ((seen() - anchor).square().mean() / unit).item<double>();
    EXPECT_NEAR(again.log["anchor_loss"].get<double>(), expected, 1e-3 * expected);
  }
}

TEST(AnchorControls, AdaptersAreHeldByTheirSquaredWay) {
  Recomputation again("asr", control("adapters"));
  const auto way = again.flat_after(Recomputation::kBefore) - again.flat_after(Recomputation::kFirstStage);
  const double expected = 2 * way.square().sum().item<double>();
  EXPECT_NEAR(again.log["anchor_loss"].get<double>(), expected, 1e-4 * expected);
  again.set(Recomputation::kBefore);
  const auto task = again.gradient_of(again.surprise(again.whole_stage(1)).mean());
  EXPECT_LT(relative_distance(again.applied_gradient(), task + 4 * way), 5e-4);
}

// Where nothing is clamped, random phases change the map and leave its spectrum.
TEST(AnchorControls, RandomPhasesKeepThePower) {
  Options options;
  options.asr.anchor = AnchorOf::phases;
  SampleBatch batch;
  for (const char* id : {"a", "b", "c"}) {
    SampleInfo info;
    info.id = id;
    batch.info.push_back(info);
  }
  torch::manual_seed(2);
  Output output;
  output.attention = (1 + 0.1 * torch::rand({3, 2, 2, 1, 8, 8}));
  output.row_weights = torch::ones({3, 1});
  SpectrumView plain(options.spectral);
  const auto view = control_view(options);
  EXPECT_TRUE(view->see(batch, output).allclose(plain.see(batch, output), 1e-3, 1e-4));
  output.attention = output.attention.pow(60);  // peaks, which random phases spread below zero
  EXPECT_FALSE(view->see(batch, output).allclose(plain.see(batch, output), 1e-2, 1e-2));
}

TEST(AnchorControls, AreWeighedByTheStagesOwnVariances) {
  const auto table = at::arange(20, at::kFloat).view({10, 2});
  const auto weights = own_weights(table, AnchorMetric::pooled, at::TensorOptions(at::kDouble));
  EXPECT_NEAR(weights.unit, 1 / 33.0, 1e-12);  // of 0, 2 ... 18: (10^2 - 1) / 12 * 4
  EXPECT_TRUE(weights.precision.allclose(torch::ones({1, 2}, at::kDouble)));
}

}  // namespace
}  // namespace asr
