// Everything that method.h offers, each by a method that does nothing else: it trains what it must and nothing besides,
// answers as its stored adapter does, and neither processes nor interruptions change what comes out.
#include <map>
#include <set>

#include "tests/methods/fake_runs.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

class EveryFake : public ::testing::TestWithParam<std::tuple<std::string, size_t>> {
 protected:
  static void SetUpTestSuite() {
    register_fakes();
    shared_ = new TemporaryFolder;
    for (const char* kind : {"tiny", "tiny_cross"}) write_small_model(*shared_ / kind, kind);
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
    runs_.clear();
  }
  static std::string kind() { return std::get<0>(GetParam()); }
  static FakeCase fake() { return fake_cases()[std::get<1>(GetParam())]; }
  static std::vector<Assignment> options(const std::string& out) { return fake_run(*shared_ / kind(), out, fake()); }
  static std::vector<Assignment> straight_options() {
    return options(*shared_ / ("straight-" + kind() + "-" + fake().name));
  }
  // The run that nothing disturbs, made once.
  static const FakeRun& straight() {
    const auto key = kind() + fake().name;
    if (!runs_.count(key)) runs_[key] = undisturbed(straight_options());
    return runs_[key];
  }

  static TemporaryFolder* shared_;
  static std::map<std::string, FakeRun> runs_;
};
TemporaryFolder* EveryFake::shared_ = nullptr;
std::map<std::string, FakeRun> EveryFake::runs_;

INSTANTIATE_TEST_SUITE_P(All, EveryFake,
                         ::testing::Combine(::testing::Values("tiny", "tiny_cross"),
                                            ::testing::Range<size_t>(0, fake_cases().size())),
                         [](const auto& entry) {
                           auto name = std::get<0>(entry.param) + fake_cases()[std::get<1>(entry.param)].name.substr(4);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Those that a stage may change have changed, and no others.
TEST_P(EveryFake, TrainsWhatItMustAndNothingElse) {
  const auto& diary = straight().diary;
  for (int stage = 1; stage <= 2; ++stage) {
    const auto& names = diary.trained.at(stage);
    const std::set<std::string> trained(names.begin(), names.end());
    ASSERT_FALSE(trained.empty());
    int moved = 0;
    for (const auto& [name, after] : diary.done.at(stage)) {
      // B of an expert that a gate has never chosen is still zero.
      const bool unchosen = name.find(".lora_B.") != std::string::npos && after.eq(0).all().item<bool>();
      if (unchosen && trained.count(name)) continue;
      const bool held = fake().name == "fake-hooks" && name == names[0];
      const bool moves = (trained.count(name) || name.rfind("fake.", 0) == 0) && !held;
      EXPECT_EQ(!after.equal(diary.begun.at(stage).at(name)), moves) << "stage " << stage << ": " << name;
      if (moves) ++moved;
    }
    EXPECT_GT(moved, 0) << "stage " << stage;
  }
}

TEST_P(EveryFake, LeavesTheBaseAsItWas) {
  const auto& base = straight().diary.base_of;
  ASSERT_EQ(base.size(), 3u);
  EXPECT_TRUE(base[0].equal(base[1]));
  EXPECT_TRUE(base[0].equal(base[2]));
}

TEST_P(EveryFake, StoresAnAdapterThatAnswersAsEvaluationDid) {
  const auto folder = straight().folder;
  EXPECT_EQ(fs::exists(folder + "/adapter/asr_adapter.json"), !fake().plain);
  EXPECT_EQ(fs::exists(folder + "/adapter/asr_adapter.safetensors"), !fake().plain);
  EXPECT_EQ(fs::exists(folder + "/adapter/adapter_model.safetensors"), fake().plain);
  expect_answers_as_evaluated(straight_options(), folder);
}

TEST_P(EveryFake, IsAudited) {
  const auto audit = audit_run(straight().folder, 4);
  EXPECT_TRUE(audit.passed()) << audit.to_json()["violations"].dump(1);
}

TEST_P(EveryFake, EndsInTheSameBitsHoweverItIsEnded) {
  TemporaryFolder folder;
  run_disturbed(options(folder / "out"));
  expect_same_files(straight().folder, folder / "out/" + fake().name);
}

TEST_P(EveryFake, IsTheSameWithTwoProcesses) {
  TemporaryFolder folder;
  run_with_two(options(folder / "out"), folder / "out");
  const auto two = folder / "out/" + fake().name;
  EXPECT_EQ(read_text(straight().folder + "/matrix.csv"), read_text(two + "/matrix.csv"));
  expect_close_logs(straight().folder, two, 2e-4);
  expect_close_adapters(straight().folder, two, 2e-3);
}

}  // namespace
}  // namespace asr
