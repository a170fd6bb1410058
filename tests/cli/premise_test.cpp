// asr premise on spectra whose answer is known, and on what a small run leaves.
#include <cmath>
#include <map>

#include "spectral/options.h"
#include "tensor/tensor_io.h"
#include "tests/support/process_runs.h"
#include "tests/support/program.h"
#include "train/audit.h"

namespace asr {
namespace {

constexpr int64_t kSkillCount = 4, kEach = 24;  // samples of a skill in a task

// What a file says of single samples; without `heads` there are none.
struct KnownSamples {
  torch::Tensor skill, task, correct, descriptor, heads;
};

// Every skill has `each` samples in every task.
void save_known_stage(const std::string& run, int64_t stage, int64_t each, const KnownSamples& samples) {
  const int64_t groups = samples.skill.size(0) / each;
  const auto index = torch::arange(groups);
  const auto table = [&](int64_t columns) { return torch::ones({groups, columns}, at::kDouble); };
  auto names = nlohmann::json::array();
  for (int64_t t = 0; t < groups / kSkillCount; ++t) names.push_back(cat("task ", t));
  NamedTensors tensors = {{"skill", index.remainder(kSkillCount)},
                          {"task", index.div(kSkillCount, "floor")},
                          {"count", torch::full({groups}, each, at::kLong)},
                          {"mean", table(54)},
                          {"variance", table(54)},
                          {"radial", table(8)},
                          {"angular", table(8)},
                          {"sample.skill", samples.skill},
                          {"sample.task", samples.task},
                          {"sample.correct", samples.correct},
                          {"sample.descriptor", samples.descriptor}};
  if (samples.heads.defined()) tensors.emplace_back("sample.heads", samples.heads);
  const auto folder = cat(run, "/stages/0", stage);
  std::filesystem::create_directories(folder);
  save_tensors(folder + "/analysis.safetensors", tensors,
               {{"skill_names", R"(["count","color","shape","location"])"},
                {"task_names", names.dump()},
                {"options", Options().manifest().dump()}});
}

// After stage t the file holds tasks 1 to t. Tasks lie far apart in one coordinate and skills nowhere. From stage to
// stage skill s moves by s units of its spread in another coordinate, and fails more often by s / 20.
void write_known_stage(const TemporaryFolder& run, int64_t stage) {
  torch::manual_seed(11);
  const int64_t n = stage * kSkillCount * kEach;
  const auto index = torch::arange(n);
  const auto skill = index.remainder(kSkillCount), task = index.div(kSkillCount * kEach, "floor");
  auto rows = torch::rand({3 * kSkillCount * kEach, 54}, at::kDouble).narrow(0, 0, n).clone();
  const double unit = 1 / std::sqrt(12.0);
  rows.select(1, 3) += 20 * task.to(at::kDouble);
  rows.select(1, 5) += static_cast<double>(stage) * unit * skill.to(at::kDouble);
  const auto correct = 1 - 0.05 * static_cast<double>(stage) * skill.to(at::kDouble);
  save_known_stage(run / "asr", stage, kEach, {skill, task, correct, rows, {}});
}

// One task, eight samples a skill, four heads in so many layers; the descriptor is their mean. Samples lie at -1 and 1
// of one coordinate. With every stage skill s fails in s of 8 samples more, and moves there: in the first head not at
// all, in the second by s, in the third by 1 where s is 0 or 3, in the fourth by 3 - s.
void write_stage_of_heads(const std::string& run, int64_t stage, int64_t layers) {
  constexpr int64_t kOfSkill = 8, kHeadCount = 4;
  const int64_t n = kSkillCount * kOfSkill;
  const auto index = torch::arange(n);
  const auto skill = index.remainder(kSkillCount), sample = index.div(kSkillCount, "floor");
  const auto s = skill.to(at::kDouble), outer = skill.remainder(3).eq(0).to(at::kDouble);
  const auto side = 2 * sample.remainder(2).to(at::kDouble) - 1;
  const auto moved = static_cast<double>(stage - 1) * at::stack({at::zeros_like(s), s, outer, 3 - s}, 1);  // [n, heads]
  auto heads = torch::zeros({n, kHeadCount, 27}, at::kDouble);
  heads.select(2, 4).copy_(side.unsqueeze(1) + moved);
  auto descriptor = torch::zeros({n, 54}, at::kDouble);
  descriptor.narrow(1, 0, 27).copy_(heads.mean(1));
  const auto correct = sample.ge(skill * (stage - 1)).to(at::kDouble);
  save_known_stage(
      run, stage, kOfSkill,
      {skill, torch::zeros({n}, at::kLong), correct, descriptor, heads.view({n, layers, kHeadCount / layers, 27})});
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

// In eighths, forgetting is 0 1 2 3 between stages, twice; since the task was learnt it is 0 1 2 3 0 2 4 6, whose
// squared deviations sum to 29.5. In spreads, the third head drifts by 1 0 0 1 2 0 0 2 then: 5.5, and 1.5 with
// forgetting; the fourth by 3 2 1 0 6 4 2 0: 29.5, and -20.5.
TEST(Premise, CorrelatesDriftOfEveryHead) {
  TemporaryFolder run;
  for (int64_t stage = 1; stage <= 3; ++stage) write_stage_of_heads(run / "asr", stage, 2);
  const auto outcome = run_program({"premise", run.path(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  const auto found = outcome.json();
  EXPECT_EQ(found["drift"], found["runs"][0]["drift"]) << "of one run";
  const std::map<std::string, std::vector<double>> expected = {
      {"step", {1, 0, -1}}, {"since_learnt", {1, 1.5 / std::sqrt(29.5 * 5.5), -20.5 / 29.5}}};
  for (const auto& [kind, pearson] : expected) {
    const auto& heads = found["drift"][kind]["heads"];
    ASSERT_EQ(heads.size(), 4u) << kind;
    EXPECT_TRUE(heads[0]["pearson"].is_null()) << kind << ": it does not move";
    for (size_t head = 1; head < 4; ++head) {
      EXPECT_EQ(heads[head]["layer"], head / 2);
      EXPECT_EQ(heads[head]["head"], head % 2);
      EXPECT_EQ(heads[head]["points"], 8);
      EXPECT_NEAR(heads[head]["pearson"].get<double>(), pearson[head - 1], 1e-9) << kind << " " << head;
    }
    EXPECT_NEAR(heads[1]["spearman"].get<double>(), 1, 1e-9) << kind;
    EXPECT_NEAR(heads[1]["pearson_interval"][0].get<double>(), 1, 1e-9) << kind;
  }
  EXPECT_NEAR(found["drift"]["step"]["pearson"].get<double>(), 0, 1e-9) << "the mean moves by 3/4 or 1";
}

// After one stage more, skills stand at 0 1 2 3 in the second head: 10/6 apart on average, samples 1 from their own.
TEST(Premise, PrintsTheBestHeadAndTheRange) {
  TemporaryFolder run;
  for (int64_t stage = 1; stage <= 3; ++stage) write_stage_of_heads(run / "asr", stage, 2);
  const auto stages = run_program({"premise", run.path(), "--json"}).json()["runs"][0]["stages"];
  EXPECT_NEAR(stages[1]["heads"][1]["separation_skills"].get<double>(), 10.0 / 6, 1e-9);
  EXPECT_NEAR(stages[1]["heads"][2]["separation_skills"].get<double>(), 4.0 / 6, 1e-9);
  const auto text = run_program({"premise", run.path()}).out;
  for (const char* part : {"1.17 (0.00 to 1.67)  layer 0, head 1", "  best head: layer 0, head 1", "1.00 [1.00, 1.00]",
                           "  median of 3 heads", "0.12", "-1.00 to 1.00", "-0.69 to 1.00"})
    EXPECT_CONTAINS(text, part);
}

TEST(Premise, LeavesHeadsOfUnlikeModelsApart) {
  TemporaryFolder runs;
  for (int64_t stage = 1; stage <= 2; ++stage) {
    write_stage_of_heads(runs / "asr", stage, 2);
    write_stage_of_heads(runs / "other", stage, 4);
  }
  const auto outcome = run_program({"premise", runs.path(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_CONTAINS(outcome.error, "not pooled");
  const auto found = outcome.json();
  EXPECT_EQ(found["drift"]["step"]["points"], 8);
  EXPECT_FALSE(found["drift"]["step"].contains("heads"));
  EXPECT_EQ(found["runs"][1]["drift"]["step"]["heads"].size(), 4u);
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
