// What the report says of skills: spectra on the samples that both stages measured, and the forms of forgetting.
#include "report/figures.h"
#include "report/run_files.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

class SkillFigures : public testing::Test {
 protected:
  std::string draw(Figure (*figure)(const ComparisonTable&)) {
    set = load_runs({folder.path()});
    comparison = compare_runs(set, {});
    return figure(comparison.tables.at(0)).html;
  }

  // A file of one skill with a row for each of these tasks; spectra have all their weight in one bin each.
  void write_stage(int stage, const std::vector<int64_t>& bin_of_task, bool tasks = true) {
    TensorList tensors;
    const auto n = static_cast<int64_t>(bin_of_task.size());
    std::vector<int64_t> task, zeros(bin_of_task.size(), 0), tens(bin_of_task.size(), 10);
    std::vector<double> spectra(8 * bin_of_task.size(), 0);
    auto names = nlohmann::json::array();
    for (int64_t t = 0; t < n; ++t) {
      task.push_back(t);
      names.push_back(cat("task", t));
      spectra[static_cast<size_t>(8 * t + bin_of_task[static_cast<size_t>(t)])] = 1;
    }
    tensors.add("skill", Dtype::I64, {n}, zeros);
    if (tasks) tensors.add("task", Dtype::I64, {n}, task);
    if (!tasks) tensors.add("sample.task", Dtype::I64, {n}, task);
    tensors.add("count", Dtype::I64, {n}, tens);
    for (const char* name : {"mean", "variance", "radial", "angular"}) tensors.add(name, Dtype::F64, {n, 8}, spectra);
    write_safetensors(cat(run, "/stages/0", stage, "/analysis.safetensors"), tensors.views(),
                      {{"skill_names", "[\"count\"]"}, {"task_names", names.dump()}});
  }

  void SetUp() override { run = write_run(folder.path(), {}); }

  TemporaryFolder folder;
  std::string run;
  RunSet set;
  Comparison comparison;
};

TEST_F(SkillFigures, ATaskThatCameLaterIsNoDrift) {
  write_stage(1, {2});
  write_stage(2, {2, 5});
  write_stage(3, {2, 5, 7});  // task 0 stays as it was; the others have other spectra
  const auto html = draw(figure_spectra);
  EXPECT_CONTAINS(html, "stage 1 → 3, drift 0<");
  write_stage(3, {3, 5, 7});
  EXPECT_CONTAINS(draw(figure_spectra), "stage 1 → 3, drift 1.4<");  // disjoint spectra: two times log 2
}

TEST_F(SkillFigures, FilesOfOlderVersionsAreNotCompared) {
  for (int stage = 1; stage <= 3; ++stage) write_stage(stage, {2}, /*tasks=*/false);
  EXPECT_CONTAINS(draw(figure_spectra), "its analysis files pool all tasks, as an older version wrote them");
}

TEST_F(SkillFigures, ARunWithoutPrototypesSaysSo) {
  EXPECT_EQ(draw(figure_spectra).find("No prototypes"), std::string::npos);
  std::filesystem::remove(run + "/memory.safetensors");
  EXPECT_CONTAINS(draw(figure_spectra), "No prototypes were measured for asr (analysis.memory: no)");
}

TEST_F(SkillFigures, ForgettingInThreeForms) {
  const auto html = draw(figure_skill_accuracy);
  // 50, 40, 45 of the first task: 5 below the best, nothing in the last step, 10 in all.
  EXPECT_CONTAINS(html, "<td>count</td><td>5.00</td><td>0.00</td><td>10.00</td>");
  EXPECT_CONTAINS(html, "<td>color</td><td>10.00</td><td>10.00</td><td>10.00</td>");
  EXPECT_EQ(html.find("<td>read</td>"), std::string::npos) << "seen in the last stage alone";
}

}  // namespace
}  // namespace asr
