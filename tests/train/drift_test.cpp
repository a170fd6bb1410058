// Drift between stages is measured on the samples that both stages measured, whatever a new task brings.
#include <nlohmann/json.hpp>

#include "io/analysis_file.h"
#include "io/safetensors_metadata.h"
#include "metrics/diagnostics.h"
#include "tests/train/run_support.h"
#include "train/evaluator.h"

namespace asr {
namespace {

using nlohmann::json;

// Every task of world-domain asks for every skill.
std::vector<Assignment> shared_skills_run(const TemporaryFolder& folder, const std::string& method) {
  auto list = small_run(folder / "model", folder / "out", method);
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"stream.name", "world-domain"}, {"stream.val", "40"}, {"analysis.samples", "24"}})
    list.push_back({key, value, "test"});
  return list;
}

// The mean spectra of a skill over the samples of the first `tasks` tasks.
std::pair<Vector, Vector> spectra_of_samples(const AnalysisFile& file, int64_t skill, int64_t tasks) {
  const auto spectral = Options().spectral;
  Vector radial(static_cast<size_t>(spectral.radial_bins), 0), angular(static_cast<size_t>(spectral.angular_bins), 0);
  double count = 0;
  for (size_t i = 0; i < file.samples.skill.size(); ++i) {
    if (file.samples.skill[i] != skill || file.samples.task[i] >= tasks) continue;
    const auto& phi = file.samples.descriptor[i];
    for (size_t k = 0; k < radial.size(); ++k) radial[k] += phi[k];
    for (size_t m = 0; m < angular.size(); ++m) angular[m] += phi[radial.size() + m];
    ++count;
  }
  for (auto* list : {&radial, &angular})
    for (double& value : *list) value /= count;
  return {radial, angular};
}

double drift_on(const AnalysisFile& a, const AnalysisFile& b, int64_t skill, int64_t tasks_a, int64_t tasks_b) {
  const auto [radial_a, angular_a] = spectra_of_samples(a, skill, tasks_a);
  const auto [radial_b, angular_b] = spectra_of_samples(b, skill, tasks_b);
  return spectral_drift(radial_a, radial_b, angular_a, angular_b);
}

std::vector<json> stage_lines(const std::string& run) {
  std::vector<json> out;
  std::istringstream in(read_text(run + "/log.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (auto value = json::parse(line); value.contains("skill_accuracy")) out.push_back(value);
  return out;
}

TEST(Drift, IsMeasuredOnTheSamplesOfBothStages) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  run_small(shared_skills_run(folder, "vanilla"));
  const auto run = folder / "out/vanilla";
  const auto lines = stage_lines(run);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_FALSE(lines[0].contains("skill_drift"));
  int shared = 0, misled = 0;
  for (int64_t stage = 2; stage <= 3; ++stage) {
    const auto a = read_analysis_file(cat(run, "/stages/0", stage - 1, "/analysis.safetensors")),
               b = read_analysis_file(cat(run, "/stages/0", stage, "/analysis.safetensors"));
    EXPECT_EQ(b.task_names.size(), static_cast<size_t>(stage));
    const auto& logged = lines[static_cast<size_t>(stage) - 1]["skill_drift"];
    for (const int64_t skill : a.skills()) {
      const double same = drift_on(a, b, skill, stage - 1, stage - 1), all = drift_on(a, b, skill, stage - 1, stage);
      const double found = logged.at(a.skill_name(skill)).get<double>();
      EXPECT_NEAR(found, same, 1e-3 * same + 1e-9) << a.skill_name(skill);
      EXPECT_EQ(a.moments(skill, a.tasks(skill)).count, b.moments(skill, a.tasks(skill)).count);
      if (b.tasks(skill).size() == static_cast<size_t>(stage)) ++shared;
      if (std::abs(all - same) > 0.1 * same) ++misled;
    }
  }
  EXPECT_GT(shared, 0) << "the new task must bring samples of an old skill, or this tests nothing";
  EXPECT_GT(misled, 0) << "pooling all tasks must give another drift, or this tests nothing";
}

// Otherwise drift would compare different samples.
TEST(Drift, EveryStageMethodAndSeedMeasuresTheSameSamples) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto list = small_run(folder / "model", folder / "out", "[vanilla,er]");
  list.push_back({"seeds", "[0,5]", "test"});
  list.push_back({"stream.seed", "0", "test"});
  const auto runs = run_small(list);
  ASSERT_EQ(runs.size(), 4u);
  const auto measured = [](const std::string& run, int stage, const char* what) {
    return metadata_json(read_safetensors(cat(run, "/stages/0", stage, "/analysis.safetensors")), what);
  };
  const auto hashes = measured(runs[0], 3, "task_samples");
  const auto shown = measured(runs[0], 3, "overlay");
  ASSERT_EQ(hashes.size(), 3u);
  const auto stream = make_stream(resolve_run(list).run.stream);
  const auto rows = analysed_rows(stream->tasks()[2].name, 8, 4);
  EXPECT_NE(rows[1], 1) << "the first rows are drawn by chance, and this tests nothing";
  ASSERT_EQ(shown.size(), 4u);  // of three tasks: 1, 1, 2
  EXPECT_EQ(shown[3]["question"], stream->text(2, DataSplit::val, rows[1]).question);
  for (const auto& run : runs) {
    EXPECT_EQ(measured(run, 3, "task_samples"), hashes) << run;
    EXPECT_EQ(measured(run, 1, "task_samples")[0], hashes[0]) << run;
    EXPECT_EQ(measured(run, 3, "overlay")[3]["question"], shown[3]["question"]) << run;
  }
}

TEST(Drift, SkillForgettingHasThreeForms) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  run_small(shared_skills_run(folder, "vanilla"));
  const auto run = folder / "out/vanilla";
  const auto metrics = json::parse(read_text(run + "/metrics.json"));
  const auto last = stage_lines(run).back();
  int seen_twice = 0;
  for (const auto& skill : metrics["skills"]) {
    const auto& accuracy = skill["accuracy"];
    EXPECT_EQ(skill["forgetting_step"].is_null(), accuracy[1].is_null());
    if (accuracy[1].is_null()) continue;  // asked for in the last stage alone
    ++seen_twice;
    const double before = accuracy[1].get<double>(), after = accuracy[2].get<double>();
    EXPECT_DOUBLE_EQ(skill["forgetting_step"].get<double>(), std::max(0.0, before - after));
    EXPECT_EQ(last["skill_forgetting_step"][skill["name"].get<std::string>()], skill["forgetting_step"]);
    EXPECT_EQ(last["skill_forgetting"][skill["name"].get<std::string>()], skill["forgetting_best"]);
    EXPECT_GE(skill["forgetting_cumulative"].get<double>(), skill["forgetting_step"].get<double>());
  }
  EXPECT_GT(seen_twice, 3);
}

}  // namespace
}  // namespace asr
