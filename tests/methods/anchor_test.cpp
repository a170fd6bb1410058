// ASR's anchored target in runs: its loss and gradient against numbers computed outside the trainer, zero at a stage's
// first step, the same bits after a resume, and nothing of it between stages.
#include "base/interrupt.h"
#include "base/text.h"
#include "methods/terms/anchors.h"
#include "spectral/memory.h"
#include "tests/data/thread_team.h"
#include "tests/methods/every_kind.h"
#include "tests/methods/method_case.h"
#include "tests/methods/recomputation.h"
#include "train/audit.h"

namespace asr {
namespace {

constexpr double kFloatError = 5e-4;  // of float32 models

const Settings kAnchored = {{"asr.target", "anchor"}, {"asr.gamma", "0"}, {"asr.anchor_beta", "40"}};

Settings both_settings(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// Spectra of a whole stage, by the adapters as they are set. [N, 54]
torch::Tensor spectra_of(const Recomputation& again, const SampleBatch& stage) {
  Want want;
  want.loss = false;
  want.tap_layers = again.config.run.tap_layers;
  const auto out = again.model->forward(stage.input, Pass{}, want);
  const SpectralEncoder encoder(out.attention.size(4), out.attention.size(5), again.config.options.spectral);
  return encoder.descriptor(out.attention, row_weights(stage.input, out));
}

// p of every sample and entry by its definition, from the stored file, before scaling; zero where an entry is left out.
struct MetricByHand {
  torch::Tensor p;    // [N, 54] double
  double target = 0;  // what the mean of p over used entries must be
};
MetricByHand metric_by_hand(const Recomputation& again, const torch::Tensor& posterior) {
  const auto memory = load_memory(again.run + "/stages/01/memory.safetensors");
  const auto metric = again.config.options.asr.metric;
  const auto stored = memory.tensors();
  const int64_t n = stored.size();
  const auto count = stored.count.to(at::kDouble).unsqueeze(1);
  const auto pooled = (stored.variance * count).sum(0, true) / count.sum();
  const auto variance = ((stored.variance * count + 20 * pooled) / (count + 20))
                            .clamp_min(again.config.options.spectral.covariance_floor);
  auto used = torch::ones({54}, at::kDouble);
  for (const int64_t d : {24, 25, 51, 52}) used[d] = 0;
  MetricByHand out;
  out.target = 50.0 * static_cast<double>(n) / (variance * used).sum().item<double>();
  out.p = torch::zeros({posterior.size(0), 54}, at::kDouble);
  for (int64_t k = 0; k < n; ++k) {
    const auto own = posterior.select(1, stored.skill[k].item<int64_t>()).to(at::kDouble).unsqueeze(1);
    const auto weight = metric == AnchorMetric::posterior ? own : torch::full_like(own, 1.0 / static_cast<double>(n));
    out.p += weight / variance[k];
  }
  if (metric == AnchorMetric::identity) out.p.fill_(1);
  out.p = out.p * used;
  return out;
}

TEST(Anchored, IsTheWeighedWayFromTheStagesStartInEveryMetric) {
  for (const char* metric : {"posterior", "pooled", "identity"}) {
    SCOPED_TRACE(metric);
    Recomputation again("asr", both_settings(kAnchored, {{"asr.metric", metric}}));
    const auto stage = again.whole_stage(1);
    again.set(Recomputation::kFirstStage);
    const auto anchor = spectra_of(again, stage).detach();
    again.set(Recomputation::kBefore);
    const auto seen = spectra_of(again, stage);
    const auto [p, target] = metric_by_hand(again, stage.posterior);
    const auto scaled = p * (target / (p.sum().item<double>() / (50.0 * static_cast<double>(p.size(0)))));
    const auto loss = (scaled.to(at::kFloat) * (seen - anchor).square()).sum() / (50.0 * double(p.size(0)));
    const auto task = again.surprise(stage).mean();
    const double expected = 40 * loss.item<double>();
    EXPECT_GT(expected, 1e-3);
    EXPECT_NEAR(again.log["anchor_loss"].get<double>(), expected, 2 * kFloatError * expected);
    EXPECT_NEAR(again.log["loss"].get<double>(), task.item<double>() + expected, 1e-3);
    EXPECT_FALSE(again.log.contains("spectral_loss"));
    const auto gradient = 40 * again.gradient_of(loss), applied = again.applied_gradient();
    EXPECT_GT(gradient.norm().item<double>(), 20 * kFloatError * applied.norm().item<double>());
    EXPECT_LT(relative_distance(applied, again.gradient_of(task) + gradient), 2 * kFloatError);
  }
}

TEST(Anchored, BothTargetsAreTheSumOfTwo) {
  Recomputation again("asr", both_settings(kAnchored, {{"asr.target", "both"}, {"asr.beta", "3"}}));
  const double task = again.log["task_loss"].get<double>(), near = again.log["spectral_loss"].get<double>(),
               held = again.log["anchor_loss"].get<double>();
  EXPECT_GT(near, 0);
  EXPECT_GT(held, 0);
  EXPECT_NEAR(again.log["loss"].get<double>(), task + near + held, 1e-4);
}

// The first moment after one step is a tenth of the gradient.
torch::Tensor first_gradient(const std::string& run, int step) {
  return load_tensor(read_safetensors(cat(run, "/checkpoints/checkpoint-", step, "/state.safetensors")),
                     "optimizer.first") *
         10;
}

TEST(Anchored, LossAndGradientAreZeroAtTheFirstStep) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  for (const char* kind : {"tiny", "tiny_cross"}) {
    write_small_model(folder / "model", kind);
    const auto run = [&](const std::string& method, const Settings& more) {
      auto list = recomputed_run(folder, method, more);
      list.push_back({"output_dir", folder / (kind + std::string("/") + method), "test"});
      return run_small(list)[0];
    };
    const auto plain = run("vanilla", {}), held = run("asr", kAnchored);
    double first = 1;
    for (const auto& line : log_of(held))
      if (line.value("current_steps", 0) == 4) first = line.value("anchor_loss", 1.0);
    EXPECT_LT(first, 1e-6) << kind;
    EXPECT_LT(relative_distance(first_gradient(held, 4), first_gradient(plain, 4)), 1e-3) << kind;
    EXPECT_GT(relative_distance(first_gradient(held, 5), first_gradient(plain, 5)), 0.01) << kind << ": never held";
  }
}

// Compositions, accumulation and few anchors, each stopped after every step.
TEST(Anchored, ResumesToTheSameBitsAndKeepsNothing) {
  const std::vector<Settings> cases = {{{"method", "asr+ewc"}},
                                       {{"method", "asr+er"}, {"gradient_accumulation_steps", "2"}},
                                       {{"method", "asr+o-lora"}, {"asr.anchor_samples", "5"}},
                                       {{"method", "asr"}, {"asr.target", "both"}, {"spectral.heads", "kept"}}};
  for (const auto& more : cases) {
    SCOPED_TRACE(more[0].second);
    TemporaryFolder folder;
    write_small_model(folder / "model");
    const auto options = [&](const std::string& out) {
      auto list = small_run(folder / "model", folder / out, "asr");
      for (const auto& [key, value] : both_settings(
               both_settings(kAnchored, {{"stream.tasks", "2"}, {"stream.val", "4"}, {"save_steps", "1"}}), more))
        list.push_back({key, value, "test"});
      return list;
    };
    const auto straight = run_small(options("straight"))[0];
    for (int attempt = 0; attempt < 20; ++attempt) {
      plan_stop(SIGINT, StopPlace::step);
      const bool stopped = !message_of([&] { run_small(options("stopped"), attempt > 0); }).empty();
      forget_stop();
      if (attempt == (more.size() > 1 && more[1].first == "gradient_accumulation_steps" ? 2 : 4)) {  // in stage 2
        const auto audit = audit_run(folder / "stopped/" + more[0].second);
        EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
        const auto text = audit.to_json()["kept"].dump();
        EXPECT_CONTAINS(text, "method.asr.start");
      }
      if (!stopped) break;
    }
    expect_same_files(straight, folder / "stopped/" + more[0].second);
    const auto audit = audit_run(straight);
    EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
    EXPECT_EQ(audit.to_json()["kept"].dump().find("start"), std::string::npos);
    bool held = false;
    for (const auto& line : log_of(straight)) held = held || line.value("anchor_loss", 0.0) > 0;
    EXPECT_TRUE(held);
  }
}

TEST(Anchored, TwoProcessesDoWhatOneDoes) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto [one, two] = run_both(folder,
                                   both_settings(kAnchored, {{"method", "[asr, asr+er]"},
                                                             {"stream.tasks", "2"},
                                                             {"spectral.covariance_floor", "0.01"},
                                                             {"per_device_train_batch_size", "7"}}),
                                   2);
  for (const char* method : {"/asr", "/asr+er"}) expect_close_runs(one + method, two + method, 1e-4);
}

// Cross-attention, and a Q-Former, whose own attention is what is looked at.
TEST(Anchored, RunsOnEveryKindOfModel) {
  expect_runs_on_every_kind("asr", {{"asr.target", "both"}});
  expect_runs_on_every_kind("asr", {{"asr.target", "both"}, {"spectral.heads", "kept"}});
}

TEST(Anchored, IsInTheEstimate) {
  const auto costs = [](const std::vector<Assignment>& assignments, double epochs) {
    const auto options = resolve_options("sound", assignments);
    CostContext run(options);
    run.task_samples = {100, 40, 30};
    run.epochs = epochs;
    run.augments = epochs > 1;
    run.parameters = 1000;
    return make_method("asr")->costs(run);
  };
  const Assignment anchored = {"asr.target", "anchor", "test"};
  EXPECT_EQ(costs({}, 1).forward_samples, 0);
  EXPECT_EQ(costs({anchored}, 1).forward_samples, 70);  // not before the first stage
  EXPECT_EQ(costs({anchored}, 3).forward_samples, 210);
  EXPECT_EQ(costs({anchored, {"asr.anchor_samples", "35", "test"}}, 1).forward_samples, 65);
  EXPECT_EQ(costs({anchored}, 1).host_bytes, 4 * (1000 + 40 * 54));
  EXPECT_EQ(costs({anchored, {"asr.anchor", "adapters", "test"}}, 1).forward_samples, 0);
}

TEST(Anchored, ContradictsRawMaps) {
  const auto message = message_of([] {
    resolve_options("sound", {{"asr.target", "both", "test"}, {"asr.spectrum", "raw", "test"}});
  });
  EXPECT_CONTAINS(message, "asr.target=both contradicts asr.spectrum=raw");
}

TEST(SpectralTerm, IsWarnedOfOnceAStageWhereItIsTooLarge) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto warnings = [&](const std::string& name, const std::string& beta) {
    const auto config = write_config(
        folder, name, {{"method", "asr"}, {"asr.beta", beta}, {"asr.weighting", "one"}, {"asr.prototypes", "global"}});
    const auto outcome = run_program({"run", config, "--threads", "1"});
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    int count = 0;
    for (size_t at = 0; (at = outcome.error.find("is larger than the task's loss", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  EXPECT_EQ(warnings("large", "1000"), 2);  // in the second and the third stage
  EXPECT_EQ(warnings("small", "0.0001"), 0);
}

// A number that says which row a sample is, and under which key it was changed.
class RowView final : public AnchorView {
 public:
  explicit RowView(const SampleSet& data) : data_(data) {}
  Needs needs() const override { return {}; }
  torch::Tensor see(const SampleBatch& batch, const Output&) override {
    std::vector<float> out;
    for (const auto& info : batch.info)
      for (int64_t row = 0; row < data_.size(); ++row)
        if (data_.info(row).id == info.id)
          out.push_back(static_cast<float>(row + 1 + 100 * static_cast<int64_t>(batch.augmentation.value_or(0))));
    return torch::tensor(out).unsqueeze(1);
  }

 private:
  const SampleSet& data_;
};

struct AnchorCase {
  TemporaryFolder folder;
  std::unique_ptr<MethodCase> around;
  std::unique_ptr<EncodedSamples> data;
  std::vector<ScheduledRows> schedule;

  AnchorCase() {
    write_small_model(folder / "model");
    around = std::make_unique<MethodCase>("asr", std::vector<Assignment>{}, folder / "model");
    data = std::make_unique<EncodedSamples>(around->data());
    around->lay_out(1);
  }
  StageContext stage(const Team& team) {
    const auto plain = around->stage_context(2, *data);
    StageContext out{
        plain.stage, plain.seed, plain.batch_size, plain.model, plain.bank, plain.objective, plain.parameters,
        plain.data,  {},         plain.answering,  team};
    out.training = [this](const SampleBatch& batch) { return around->pass(batch, 2, false); };
    out.schedule = [this] { return schedule; };
    return out;
  }
  Anchors measured(int64_t samples, const Team& team) {
    Anchors out;
    RowView view(*data);
    out.measure(stage(team), view, samples);
    return out;
  }
  // Anchors that a pass over these rows finds, the first `own` of them the stage's own; 0: none.
  std::vector<int> found(const Anchors& anchors, const std::vector<int64_t>& rows, size_t own,
                         std::optional<uint64_t> augment = {}) {
    auto batch = data->training_rows(rows, augment);
    for (size_t i = 0; i < rows.size(); ++i) batch.info[i].stage = i < own ? 2 : 1;
    const Phase phase;
    Share share{around->alone};
    share.positions = range(0, batch.size());
    const Output output;
    std::map<std::string, torch::Tensor> log;
    std::vector<std::pair<torch::Tensor, double>> losses;
    StepContext step{
        around->trained, *around->model, *around->bank, *around->objective, phase, batch, rows, share, output, {}, log,
        losses};
    const auto seen = anchors.of(step);
    EXPECT_TRUE(at::equal(seen.has.gt(0), seen.anchor.gt(0)));
    std::vector<int> out;
    for (int64_t i = 0; i < seen.anchor.size(0); ++i) out.push_back(static_cast<int>(seen.anchor[i][0].item<float>()));
    return out;
  }
};

TEST(AnchorTable, BelongsToTheScheduledRowsAndToNoReplayedOne) {
  AnchorCase c;
  c.schedule = {{{3, 5}, {}}, {{7}, {}}, {{3, 9}, {}}};
  const auto anchors = c.measured(0, c.around->alone);
  EXPECT_EQ(anchors.table().size(0), 4);  // a row that comes twice has one
  EXPECT_EQ(c.found(anchors, {9, 3, 4, 7}, 4), (std::vector<int>{10, 4, 0, 8}));
  EXPECT_EQ(c.found(anchors, {9, 3, 5, 7}, 2), (std::vector<int>{10, 4, 0, 0}));  // two are replayed
  EXPECT_EQ(c.found(anchors, {5}, 0), (std::vector<int>{0}));                     // stands in for the stage's row
}

TEST(AnchorTable, FollowsTheKeysOfTheSchedule) {
  AnchorCase c;
  c.schedule = {{{3, 5}, 1}, {{7}, 2}, {{5, 3}, 3}};
  const auto anchors = c.measured(0, c.around->alone);
  EXPECT_EQ(anchors.table().size(0), 5);
  EXPECT_EQ(c.found(anchors, {5, 3}, 2, 1), (std::vector<int>{106, 104}));
  EXPECT_EQ(c.found(anchors, {5, 3}, 2, 3), (std::vector<int>{306, 304}));
  EXPECT_EQ(c.found(anchors, {5, 7}, 2, 2), (std::vector<int>{0, 208}));
}

TEST(AnchorTable, ShuffledGivesEverySampleAnothers) {
  AnchorCase c;
  c.schedule = {{range(0, 12), {}}};
  auto anchors = c.measured(0, c.around->alone);
  anchors.shuffle(5);
  const auto found = c.found(anchors, range(0, 12), 12);
  EXPECT_EQ(std::set<int>(found.begin(), found.end()).size(), 12u);
  for (int i = 0; i < 12; ++i) EXPECT_NE(found[static_cast<size_t>(i)], i + 1);
}

TEST(AnchorTable, IsBoundedAndTheSameForSeveralProcesses) {
  AnchorCase c;
  for (uint64_t key = 1; key < 4; ++key) c.schedule.push_back({range(0, 12), key});
  const auto few = c.measured(7, c.around->alone);
  EXPECT_EQ(few.table().size(0), 7);
  EXPECT_EQ(std::get<0>(at::_unique(few.table())).numel(), 7);
  std::vector<torch::Tensor> tables(3);
  as_team(3, [&](const Team& team) { tables[static_cast<size_t>(team.rank())] = c.measured(7, team).table(); });
  for (const auto& table : tables) EXPECT_TRUE(at::equal(table, few.table()));
}

}  // namespace
}  // namespace asr
