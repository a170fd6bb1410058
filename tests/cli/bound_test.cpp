// asr bound on runs whose laws are known: every stage shifts the descriptors of the stage before.
#include <cmath>

#include "spectral/options.h"
#include "tensor/tensor_io.h"
#include "tests/support/program.h"

namespace asr {
namespace {

constexpr int64_t kTasks = 4, kSamples = 20;  // a task
constexpr int64_t kSkills[] = {0, 3};         // in turns: 0, 3, 0, ...

// Stage t holds tasks 0..t-1; a sample's descriptor moves by `step` in every coordinate from stage to stage, and its
// score falls by `loss`.
class BoundRun : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(41);
    base = torch::rand({kTasks, kSamples, 54}, at::kDouble);
  }
  torch::Tensor rows_at(int64_t stage) const {
    return base.narrow(0, 0, stage).flatten(0, 1) + step * static_cast<double>(stage);
  }
  void write_stage(const std::string& method, int64_t stage, const torch::Tensor& rows) {
    const int64_t n = rows.size(0), tasks = (n + kSamples - 1) / kSamples, size = rows.size(1);
    const auto index = torch::arange(n);
    const auto skill = index.remainder(2).mul(kSkills[1]), task = index.div(kSamples, "floor");
    const auto folder = cat(run / method, "/stages/0", stage);
    std::filesystem::create_directories(folder);
    // What `asr bound` does not read may be anything.
    const auto table = [&](int64_t columns) { return torch::ones({2 * tasks, columns}, at::kDouble); };
    auto names = nlohmann::json::array();
    for (int64_t t = 0; t < tasks; ++t) names.push_back(cat("task ", t));
    save_tensors(folder + "/analysis.safetensors",
                 {{"skill", torch::arange(2 * tasks).remainder(2).mul(kSkills[1])},
                  {"task", torch::arange(2 * tasks).div(2, "floor")},
                  {"count", torch::full({2 * tasks}, kSamples / 2, at::kLong)},
                  {"mean", table(size)},
                  {"variance", table(size)},
                  {"radial", table(8)},
                  {"angular", table(8)},
                  {"sample.skill", skill},
                  {"sample.task", task},
                  {"sample.correct", torch::full({n}, 0.9 - loss * static_cast<double>(stage), at::kDouble)},
                  {"sample.descriptor", rows}},
                 {{"skill_names", R"(["count","color","shape","location"])"},
                  {"task_names", names.dump()},
                  {"options", Options().manifest().dump()}});
  }
  void write_run(const std::string& method) {
    for (int64_t stage = 1; stage <= kTasks; ++stage) write_stage(method, stage, rows_at(stage));
  }
  // |step / deviation| of one skill's samples of the first `tasks` tasks.
  double expected_shift(int64_t tasks, int64_t which) const {
    const auto rows = base.narrow(0, 0, tasks).flatten(0, 1).slice(0, which, c10::nullopt, 2);
    return step * std::sqrt(rows.var(0, /*unbiased=*/true).reciprocal().sum().item<double>());
  }
  TemporaryFolder run;
  torch::Tensor base;
  double step = 0.25, loss = 0.05;
};

TEST_F(BoundRun, KnownShiftsAreFoundOnSharedSamples) {
  write_run("asr");
  const auto outcome = run_program({"bound", run.path(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto found = outcome.json()["runs"];
  ASSERT_EQ(found.size(), 1u);
  const auto transitions = found[0]["transitions"];
  ASSERT_EQ(transitions.size(), 3u);
  for (int64_t t = 0; t < 3; ++t) {
    const auto& transition = transitions[t];
    EXPECT_EQ(transition["old_stage"], t + 1);
    EXPECT_EQ(transition["new_stage"], t + 2);
    EXPECT_NEAR(transition["forgetting"].get<double>(), loss, 1e-9);
    EXPECT_GE(transition["bound_w1"].get<double>(), loss - 1e-9);
    EXPECT_GE(transition["bound_gaussian"].get<double>(), transition["bound_w1"].get<double>() - 1e-9);
    ASSERT_EQ(transition["skills"].size(), 2u);
    for (size_t s = 0; s < 2; ++s) {
      const auto& skill = transition["skills"][s];
      EXPECT_EQ(skill["skill"], kSkills[s]);
      EXPECT_EQ(skill["samples"], (t + 1) * kSamples / 2) << "tasks of both stages alone";
      EXPECT_DOUBLE_EQ(skill["omega"], 0.5);
      const double expected = expected_shift(t + 1, static_cast<int64_t>(s));
      EXPECT_NEAR(skill["w1"].get<double>(), expected, 1e-9 * expected);
      EXPECT_NEAR(skill["delta"].get<double>(), expected, 1e-9 * expected);
      EXPECT_NEAR(skill["gamma_estimate"]["old"].get<double>(), skill["gamma_estimate"]["new"].get<double>(), 1e-9);
      EXPECT_NEAR(skill["risk_increase"].get<double>(), loss, 1e-9);
    }
  }
  EXPECT_EQ(transitions[0]["skills"][1]["name"], "location");
  EXPECT_EQ(found[0]["fits"][0]["points"], 3);
  EXPECT_GT(found[0]["fits"][0]["lipschitz_estimate"].get<double>(), 0);
}

TEST_F(BoundRun, SummariesOfEveryStage) {
  write_run("asr");
  const auto found = run_program({"bound", run / "asr", "--json"}).json()["runs"][0]["stages"];
  ASSERT_EQ(found.size(), 4u);
  const auto all = rows_at(2), rows = all.slice(0, 0, c10::nullopt, 2), mean = rows.mean(0),
             other = all.slice(0, 1, c10::nullopt, 2);
  const auto skill = found[1]["skills"][0];
  EXPECT_EQ(skill["name"], "count");
  EXPECT_NEAR(skill["radial"][0].get<double>(), mean.narrow(0, 0, 3).sum().item<double>(), 1e-9);
  // Anisotropy stands after 8 radial and 8 angular numbers; bins 0 and 4 are at 22.5 degrees.
  EXPECT_NEAR(skill["anisotropy"][0].get<double>(), ((mean[16] + mean[20]) / 2).item<double>(), 1e-9);
  const auto far = (mean - other.mean(0)).norm();
  const auto own = at::cat({(rows - mean).norm(2, 1), (other - other.mean(0)).norm(2, 1)}).mean();
  EXPECT_NEAR(found[1]["separation"].get<double>(), (far / own).item<double>(), 1e-9);
}

TEST_F(BoundRun, TextSaysWhatIsEstimated) {
  write_run("asr");
  write_run("vanilla");
  const auto outcome = run_program({"bound", run.path()});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  for (const char* word : {"/asr", "/vanilla", "location", "L~", "epsilon~", "1 to 2", "separation", "an estimate"})
    EXPECT_CONTAINS(outcome.out, word);
}

TEST_F(BoundRun, WhatDoesNotFitIsNamed) {
  const auto refused = [&](const std::string& path) {
    const auto outcome = run_program({"bound", path});
    EXPECT_EQ(outcome.status, 2) << outcome.error;
    return outcome.error;
  };
  EXPECT_CONTAINS(refused(run / "missing"), "no such folder");
  EXPECT_CONTAINS(refused(run.path()), "is it a run?");
  write_stage("asr", 1, rows_at(1));
  EXPECT_CONTAINS(refused(run.path()), "one analysed stage");
  write_stage("asr", 2, rows_at(1).narrow(0, 0, kSamples - 2));
  EXPECT_CONTAINS(refused(run.path()), "same samples must be measured");
  write_stage("asr", 2, rows_at(1).narrow(1, 0, 50));
  EXPECT_CONTAINS(refused(run.path()), "its options make 54");
  write_stage("asr", 2, torch::full({kSamples, 54}, NAN, at::kDouble));
  EXPECT_CONTAINS(refused(run.path()), "NaN");
}

// A fair coin on -c, c is sqrt(2 - 2 sqrt(2 / pi)) c away from its Gaussian. Both files are measured in A's deviation.
TEST(DriftGamma, IsInTheMetricOfTheOlderFile) {
  TemporaryFolder folder;
  constexpr double kUnit = 0.63579;
  const auto write_coin = [&](const std::string& name, double c) {
    const auto one = [](double value) { return torch::full({1, 1}, value, at::kDouble); };
    const auto coin = torch::arange(1000).remainder(2).mul(2).sub(1).to(at::kDouble).mul(c).view({1000, 1});
    save_tensors(folder / name,
                 {{"skill", torch::zeros({1}, at::kLong)},
                  {"mean", one(0)},
                  {"variance", one(c * c)},
                  {"radial", one(1)},
                  {"angular", one(1)},
                  {"sample.skill", torch::zeros({1000}, at::kLong)},
                  {"sample.descriptor", coin}},
                 {});
    return folder / name;
  };
  const auto outcome = run_program({"drift", write_coin("a", 2), write_coin("b", 6), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto skill = outcome.json()["skills"][0];
  EXPECT_NEAR(skill["gamma_estimate"]["a"].get<double>(), kUnit, 5e-3);
  EXPECT_NEAR(skill["gamma_estimate"]["b"].get<double>(), 3 * kUnit, 15e-3);
  EXPECT_NEAR(skill["w2"].get<double>(), 2, 1e-9);
  EXPECT_NEAR(skill["gaussian_bound_estimate"].get<double>(), 4 * kUnit + 2, 2e-2);
}

}  // namespace
}  // namespace asr
