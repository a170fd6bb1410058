// asr premise on spectra whose answer is known, and on what a small run leaves.
#include <cmath>

#include "spectral/options.h"
#include "tensor/tensor_io.h"
#include "tests/support/process_runs.h"
#include "tests/support/program.h"
#include "train/audit.h"

namespace asr {
namespace {

constexpr int64_t kSkillCount = 4, kEach = 24;  // samples of a skill in a task

// After stage t the file holds tasks 1 to t. Tasks lie far apart in one coordinate and skills nowhere. From stage to
// stage skill s moves by s units of its spread in another coordinate, and fails more often by s / 20.
void write_known_stage(const TemporaryFolder& run, int64_t stage) {
  torch::manual_seed(11);
  const int64_t n = stage * kSkillCount * kEach, groups = stage * kSkillCount;
  const auto index = torch::arange(n);
  const auto skill = index.remainder(kSkillCount), task = index.div(kSkillCount * kEach, "floor");
  auto rows = torch::rand({3 * kSkillCount * kEach, 54}, at::kDouble).narrow(0, 0, n).clone();
  const double unit = 1 / std::sqrt(12.0);
  rows.select(1, 3) += 20 * task.to(at::kDouble);
  rows.select(1, 5) += static_cast<double>(stage) * unit * skill.to(at::kDouble);
  const auto table = [&](int64_t columns) { return torch::ones({groups, columns}, at::kDouble); };
  auto names = nlohmann::json::array();
  for (int64_t t = 0; t < stage; ++t) names.push_back(cat("task ", t));
  const auto folder = cat(run / "asr", "/stages/0", stage);
  std::filesystem::create_directories(folder);
  save_tensors(folder + "/analysis.safetensors",
               {{"skill", torch::arange(groups).remainder(kSkillCount)},
                {"task", torch::arange(groups).div(kSkillCount, "floor")},
                {"count", torch::full({groups}, kEach, at::kLong)},
                {"mean", table(54)},
                {"variance", table(54)},
                {"radial", table(8)},
                {"angular", table(8)},
                {"sample.skill", skill},
                {"sample.task", task},
                {"sample.correct", 1 - 0.05 * static_cast<double>(stage) * skill.to(at::kDouble)},
                {"sample.descriptor", rows}},
               {{"skill_names", R"(["count","color","shape","location"])"},
                {"task_names", names.dump()},
                {"options", Options().manifest().dump()}});
}

TEST(Premise, FindsWhatIsThere) {
  TemporaryFolder run;
  for (int64_t stage = 1; stage <= 3; ++stage) write_known_stage(run, stage);
  const auto outcome = run_program({"premise", run.path(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto found = outcome.json();
  const auto& stages = found["runs"][0]["stages"];
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_TRUE(stages[0]["naming_stages"].is_null()) << "one task is no choice";
  EXPECT_EQ(stages[2]["naming_stages"]["accuracy"], 1.0);
  EXPECT_NEAR(stages[2]["naming_stages"]["chance"].get<double>(), 1.0 / 3, 1e-9);
  EXPECT_GT(stages[2]["separation_stages"].get<double>(), 3 * stages[2]["separation_skills"].get<double>());
  EXPECT_FALSE(stages[2].contains("heads"));
  // Four skills: in task 1 between stages 1-2, in tasks 1 and 2 between 2-3; from 1 to 2 and 3, and from 2 to 3.
  for (const char* kind : {"step", "since_learnt"}) {
    const auto& drift = found["drift"][kind];
    EXPECT_EQ(drift["points"], 12) << kind;
    EXPECT_GT(drift["pearson"].get<double>(), 0.9) << kind;
    EXPECT_GT(drift["spearman"].get<double>(), 0.8) << kind;
    EXPECT_GT(drift["pearson_interval"][0].get<double>(), 0.5) << kind;
  }
  const auto text = run_program({"premise", run.path()});
  EXPECT_CONTAINS(text.out, "100 % (33)");
  EXPECT_CONTAINS(text.out, "since it was learnt");
}

TEST(Premise, ReadsTheBaseAndEveryHeadOfARun) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "vanilla");
  for (const auto& [key, value] :
       Settings{{"analysis.premise", "yes"}, {"stream.tasks", "2"}, {"analysis.samples", "8"}})
    list.push_back({key, value, "test"});
  const auto run = run_small(list)[0];
  const auto audit = audit_run(run);
  EXPECT_TRUE(audit.passed()) << audit.to_json().dump(1);
  const auto file = read_safetensors(run + "/stages/02/analysis.safetensors");
  const auto heads = load_tensor(file, "sample.heads"), all = load_tensor(file, "sample.descriptor");
  ASSERT_EQ(heads.dim(), 4);
  EXPECT_TRUE(heads.mean({1, 2}).allclose(all.narrow(1, 0, 27), 1e-4, 1e-5)) << "their mean is the descriptor";
  const auto stages = run_program({"premise", run, "--json"}).json()["runs"][0]["stages"];
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0]["stage"], 0);
  EXPECT_EQ(stages[0]["samples"], 16);  // the base is looked at on all tasks
  EXPECT_EQ(stages[1]["samples"], 8);
  EXPECT_EQ(stages[0]["heads"].size(), static_cast<size_t>(heads.size(1) * heads.size(2)));
  EXPECT_EQ(stages[0]["naming_stages_heads_kept"]["tested"], 4);
  EXPECT_EQ(run_program({"bound", run}).status, 0);  // which begins with the first stage
}

TEST(Premise, SaysWhatItNeeds) {
  TemporaryFolder folder;
  EXPECT_CONTAINS(run_program({"premise", folder / "none"}).error, "no such folder");
  EXPECT_CONTAINS(run_program({"premise", folder.path()}).error, "is it a run?");
}

}  // namespace
}  // namespace asr
