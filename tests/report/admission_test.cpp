// A stream judged from runs that are there: which settings count, what they are compared with, what is missing.
#include <algorithm>
#include <cmath>
#include <functional>

#include "report/admission_runs.h"
#include "tests/support/files.h"

namespace asr {
namespace {

class AdmissionRuns : public testing::Test {
 protected:
  asr::Run& add(const std::string& label, int64_t seed, double rate, double ap, double mft) {
    asr::Run run;
    run.folder = "t.csv:" + std::to_string(runs.size() + 2);
    run.root = "t.csv";
    run.stream = "hue";
    run.backbone = "tiny-S";
    run.label = label;
    run.method = label.rfind("joint", 0) == 0 ? "joint" : "vanilla";
    run.split = seed > 100 ? "tune" : "test";
    run.seed = seed;
    run.rate = rate;
    run.epochs = 1;
    run.tasks = {"a", "b"};
    run.scores = {{"AP", ap}, {"AF", 30}, {"MFT", mft}, {"zero_shot", 10}};
    run.outside = 5;
    run.cost.adapter_parameters = label.find("rank-96") == std::string::npos ? 100 : 600;
    runs.push_back(run);
    return runs.back();
  }
  static std::string label_at(const std::string& row, const std::string& rate) {
    return row + ":learning_rate=" + rate + ",num_train_epochs=1";
  }
  // Vanilla has its best AP at 0.002 and its best MFT at 0.005, which was not tested; joint is best in a row of its
  // own.
  void SetUp() override {
    add(label_at("vanilla", "0.001"), 101, 0.001, 20, 40);
    add(label_at("vanilla", "0.002"), 101, 0.002, 22, 55);
    add(label_at("vanilla", "0.005"), 101, 0.005, 15, 60);
    add(label_at("vanilla-rank-96", "0.002"), 101, 0.002, 99, 99);  // another row
    add(label_at("joint", "0.001"), 101, 0.001, 45, 45);
    add(label_at("joint", "0.002"), 101, 0.002, 50, 50);
    add(label_at("joint-wide", "0.001"), 101, 0.001, 51, 51);
    add(label_at("joint-wide", "0.002"), 101, 0.002, 52, 52);
    for (int64_t seed = 1; seed <= 3; ++seed) {
      const auto step = static_cast<double>(seed);
      add("vanilla", seed, 0.002, 18 + step, 54);
      add("joint", seed, 0.002, 90, 90);
      add("joint-wide", seed, 0.002, 48 + 2 * step, 48 + 2 * step);
    }
  }
  void leave_out(const std::function<bool(const asr::Run&)>& unwanted) {
    runs.erase(std::remove_if(runs.begin(), runs.end(), unwanted), runs.end());
  }
  AdmissionVerdict judged() const { return judge_runs(runs, "t.csv", {"vanilla", "joint"}); }
  std::string refusal() const {
    return error_of([&] { judged(); });
  }

  std::vector<asr::Run> runs;
};

// More passes are a row of their own, another rank is another method's business.
TEST_F(AdmissionRuns, ARowOfVanillaThatTrainsAsManyNumbersCounts) {
  add(label_at("vanilla-long", "0.002"), 101, 0.002, 30, 58);
  for (int64_t seed = 1; seed <= 3; ++seed) add("vanilla-long", seed, 0.002, 28, 57);
  const auto verdict = judged();
  EXPECT_EQ(verdict.vanilla, "vanilla-long:learning_rate=0.002,num_train_epochs=1");
  EXPECT_NEAR(verdict.admission.vanilla_ap.mean, 28, 1e-12);
}

TEST_F(AdmissionRuns, TheBestOnTuneIsComparedOnTest) {
  const auto verdict = judged();
  EXPECT_EQ(verdict.stream + " " + verdict.backbone + " " + verdict.split, "hue tiny-S test");
  EXPECT_EQ(verdict.vanilla, "learning_rate=0.002,num_train_epochs=1");
  EXPECT_EQ(verdict.joint, "joint-wide:learning_rate=0.002,num_train_epochs=1");
  const auto& a = verdict.admission;
  EXPECT_NEAR(a.vanilla_ap.mean, 20, 1e-12);
  EXPECT_NEAR(a.joint_ap.mean, 52, 1e-12);
  EXPECT_NEAR(a.over_vanilla.mean, 32, 1e-12);
  EXPECT_TRUE(a.over_vanilla.interval.known());
  EXPECT_NEAR(a.over_zero_shot.mean, 42, 1e-12);
  EXPECT_NEAR(verdict.outside.mean, 5, 1e-12);
  EXPECT_EQ(verdict.text(), "admitted");
  EXPECT_EQ(verdict.seeds, 3u);
  EXPECT_EQ(verdict.runs, 3u + 4u + 6u);
  ASSERT_EQ(verdict.searched.size(), 3u);
  EXPECT_EQ(verdict.searched[0].label, "vanilla");
  EXPECT_EQ(verdict.searched[0].rates, (std::vector<double>{0.001, 0.002, 0.005}));
  EXPECT_EQ(verdict.searched[0].epochs, (std::vector<double>{1}));
  EXPECT_EQ(verdict.searched[0].points, 3u);
  EXPECT_EQ(verdict.searched[0].most_seeds, 1u);
  EXPECT_EQ(verdict.searched[2].label, "joint-wide");
}

// Of other runs than those of joint, means alone can be compared.
TEST_F(AdmissionRuns, TheBestMftIsThatOfTuneWhereItWasNotTested) {
  const auto verdict = judged();
  EXPECT_EQ(verdict.learnt, "learning_rate=0.005,num_train_epochs=1");
  EXPECT_EQ(verdict.learnt_split, "tune");
  EXPECT_NEAR(verdict.admission.best_mft.mean, 60, 1e-12);
  EXPECT_NEAR(verdict.admission.learnt.mean, 8, 1e-12);
  EXPECT_FALSE(verdict.admission.learnt.interval.known());
  ASSERT_EQ(verdict.notes.size(), 2u);
  EXPECT_EQ(verdict.notes[0], "joint-wide is best at the end of its rates, 0.002: a better one may lie beyond");
  EXPECT_CONTAINS(verdict.notes[1], "vanilla's best MFT is that on tune, over 1 run: its setting was not tested");
  for (int64_t seed = 1; seed <= 3; ++seed) add("vanilla", seed, 0.005, 10, 49 + 2 * static_cast<double>(seed));
  const auto tested = judged();
  EXPECT_EQ(tested.learnt_split, "test");
  EXPECT_NEAR(tested.admission.learnt.mean, 1, 1e-12);
  EXPECT_EQ(tested.notes.size(), 1u);
  EXPECT_EQ(tested.runs, verdict.runs + 3);
}

TEST_F(AdmissionRuns, FinalistsAreThoseWithMostSeeds) {
  add(label_at("vanilla", "0.001"), 102, 0.001, 20, 40);
  EXPECT_CONTAINS(refusal(), "vanilla is best on tune at learning_rate=0.001,num_train_epochs=1, which has no runs on");
  add(label_at("vanilla", "0.002"), 102, 0.002, 21, 55);
  const auto verdict = judged();
  EXPECT_EQ(verdict.vanilla, "learning_rate=0.002,num_train_epochs=1");
  EXPECT_EQ(verdict.searched[0].fewest_seeds, 1u);
  EXPECT_EQ(verdict.searched[0].most_seeds, 2u);
  EXPECT_EQ(verdict.searched[0].runs, 5u);
}

// Two settings that are equal on tune: the one that was tested was chosen.
TEST_F(AdmissionRuns, OfEqualSettingsTheTestedOneCounts) {
  runs[0].scores["AP"] = 22;
  EXPECT_EQ(judged().vanilla, "learning_rate=0.002,num_train_epochs=1");
}

TEST_F(AdmissionRuns, SeedsOfOneRowAloneAreLeftOut) {
  add("joint-wide", 4, 0.002, 0, 0);
  const auto verdict = judged();
  EXPECT_EQ(verdict.seeds, 3u);
  EXPECT_NEAR(verdict.admission.joint_ap.mean, 52, 1e-12);
  EXPECT_EQ(verdict.notes.back(), "left out: 1 runs on test whose seed only one of the two rows has");
  leave_out([](const asr::Run& run) { return run.label == "joint-wide" && run.seed < 4; });
  EXPECT_CONTAINS(refusal(), "t.csv: vanilla and joint share no seed on test");
}

TEST_F(AdmissionRuns, WithoutTestRowsValIsReported) {
  for (auto& run : runs)
    if (run.split == "test") run.split = "";
  EXPECT_EQ(judged().split, "val");
}

TEST_F(AdmissionRuns, WhatIsMissingIsALine) {
  const auto all = runs;
  const auto without = [&](const std::function<bool(const asr::Run&)>& unwanted) {
    runs = all;
    leave_out(unwanted);
    return refusal();
  };
  EXPECT_CONTAINS(without([](const asr::Run& run) { return run.method == "joint"; }),
                  "t.csv: has no row of the method joint");
  EXPECT_CONTAINS(
      without([](const asr::Run& run) { return run.label.rfind("vanilla", 0) == 0 && run.label[7] != '-'; }),
      "t.csv: has no row 'vanilla'");
  EXPECT_CONTAINS(without([](const asr::Run& run) { return run.split == "test"; }), "has no runs of vanilla on test");
  EXPECT_CONTAINS(without([](const asr::Run& run) { return run.split == "tune"; }), "has no runs of vanilla on tune");
  runs = all;
  runs.back().stream = "rule";
  EXPECT_CONTAINS(refusal(), "t.csv: holds runs of several streams (hue, rule)");
  runs = all;
  runs.back().rate = kUnknown;
  EXPECT_CONTAINS(refusal(), "its learning_rate or num_train_epochs is not known");
  runs = all;
  for (auto& run : runs)
    if (run.method == "joint") run.complete = false;
  EXPECT_CONTAINS(refusal(), "has no row of the method joint");
  runs = all;
  for (auto& run : runs)
    if (run.method == "joint") run.scores["AP"] = NAN;
  EXPECT_CONTAINS(refusal(), "no run of joint on tune has a score of AP");
}

}  // namespace
}  // namespace asr
