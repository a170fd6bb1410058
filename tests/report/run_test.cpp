// Reading runs from disk: what is accepted, what is skipped, and what every refusal says.
#include "report/run.h"

#include <cmath>

#include "report/run_files.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

class Runs : public testing::Test {
 protected:
  std::string refusal() {
    return error_of([&] { load_runs({folder.path()}); });
  }
  // Replaces one value of a good metrics.json.
  void edit(const nlohmann::json::json_pointer& key, const nlohmann::json& value) {
    const std::string path = write_run(folder.path(), {}) + "/metrics.json";
    auto metrics = nlohmann::json::parse(read_text(path));
    metrics[key] = value;
    write_text(path, metrics.dump());
  }
  std::string refusal_with(const nlohmann::json::json_pointer& key, const nlohmann::json& value) {
    edit(key, value);
    return refusal();
  }
  using Key = nlohmann::json::json_pointer;
  TemporaryFolder folder;
};

TEST_F(Runs, AnOutFolderAndAMethodFolder) {
  const auto method = write_run(folder.path(), {});
  const auto set = load_runs({folder.path() + "/"});
  ASSERT_EQ(set.runs.size(), 1u);
  EXPECT_EQ(set.out, folder.path());
  EXPECT_EQ(set.runs[0].root, folder.path());
  EXPECT_EQ(set.runs[0].matrix.stages(), 3);
  EXPECT_DOUBLE_EQ(set.runs[0].skills[0].accuracy[0], 50) << "fractions become 0..100";
  EXPECT_TRUE(std::isnan(set.runs[0].skills[2].accuracy[0]));
  const auto single = load_runs({method});
  EXPECT_EQ(single.out, "");
  EXPECT_EQ(single.runs[0].root, folder.path());
  EXPECT_EQ(load_runs({folder.path(), method}).runs.size(), 1u) << "named twice, counted once";
}

TEST_F(Runs, UnfinishedRunsShowWhatIsThereAndSaySo) {
  FabricatedRun run;
  write_run(folder.path(), run);
  run.label = "ewc";
  run.complete = false;
  run.rows = {{50}, {40, 60}};
  const auto unfinished = write_run(folder.path(), run);
  write_text(unfinished + "/log.jsonl", read_text(unfinished + "/log.jsonl") + "{\"loss\": 0.");  // being written
  run.label = "er";
  run.rows.clear();
  write_run(folder.path(), run);
  std::filesystem::create_directories(folder / "lwf");
  write_text(folder / "lwf/log.jsonl", "");
  std::filesystem::create_directories(folder / "cache");
  const auto set = load_runs({folder.path()});
  ASSERT_EQ(set.runs.size(), 2u);
  EXPECT_EQ(set.runs[1].label, "ewc (2 of 3 stages)");
  EXPECT_DOUBLE_EQ(set.runs[1].score("AP"), 50);
  EXPECT_EQ(read_loss_log(set.runs[1]).step.size(), 80u);
  ASSERT_EQ(set.notes.size(), 2u);  // the last one: made by a test, they have no checksums
  EXPECT_CONTAINS(set.notes[0], "ewc: not complete, 2 of 3 stages");
  ASSERT_EQ(set.skipped.size(), 2u);
  EXPECT_CONTAINS(set.skipped[0], "er: no stage is done yet");
  EXPECT_CONTAINS(set.skipped[1], "lwf: no metrics.json");
  std::filesystem::remove_all(folder / "asr");
  EXPECT_EQ(load_runs({folder.path()}).runs.size(), 1u);
  std::filesystem::remove_all(folder / "ewc");
  EXPECT_CONTAINS(refusal(), "no run has finished a stage");
}

TEST_F(Runs, TheSameLabelInTwoFolders) {
  write_run(folder / "a", {});
  write_run(folder / "b", {});
  const auto set = load_runs({folder / "a", folder / "b"});
  EXPECT_EQ(set.runs[0].label, "asr@" + (folder / "a"));
  EXPECT_EQ(set.runs[1].label, "asr@" + (folder / "b"));
  ASSERT_EQ(set.notes.size(), 2u);
  EXPECT_CONTAINS(set.notes[0], "told apart by folder");
  EXPECT_CONTAINS(set.notes[1], "a/asr and 1 more: have no checksums.json; the files are read unchecked");
  EXPECT_EQ(set.out, "");
  std::filesystem::copy(folder / "a/asr", folder / "a/copy", std::filesystem::copy_options::recursive);
  EXPECT_CONTAINS(error_of([&] { load_runs({folder / "a"}); }), "are both asr, seed 0, order 0; remove one");
}

TEST_F(Runs, BadPlaces) {
  EXPECT_CONTAINS(error_of([&] { load_runs({folder / "none"}); }), "no such folder");
  EXPECT_CONTAINS(refusal(), "holds no runs");
  write_text(folder / "file", "");
  EXPECT_CONTAINS(error_of([&] { load_runs({folder / "file"}); }), "is a file");
}

TEST_F(Runs, BadMetrics) {
  EXPECT_CONTAINS(refusal_with(Key("/scores/AP"), "nan"), "'AP' is \"nan\", not a number");
  EXPECT_CONTAINS(refusal_with(Key("/scores"), 3), "not a JSON object");
  EXPECT_CONTAINS(refusal_with(Key("/tasks"), nlohmann::json::array()), "'tasks' is empty");
  EXPECT_CONTAINS(refusal_with(Key("/tasks"), {1}), "not a text");
  EXPECT_CONTAINS(refusal_with(Key("/seed"), "one"), "not a whole number");
  EXPECT_CONTAINS(refusal_with(Key("/complete"), "yes"), "not true or false");
  EXPECT_CONTAINS(refusal_with(Key("/skills"), {1}), "skills[0]");
  EXPECT_CONTAINS(refusal_with(Key("/tasks"), {"count", "color", "other"}), "but metrics.json names");
  write_text(folder / "asr/metrics.json", "{\n\"label\": \"asr\",\n\"seed\": NaN}");
  EXPECT_CONTAINS(refusal(), "metrics.json:3:9: not valid JSON");
  write_text(folder / "asr/metrics.json", "{\"complete\": true}");
  EXPECT_CONTAINS(refusal(), "key 'label' is missing");
}

TEST_F(Runs, BadMatrices) {
  const auto run = write_run(folder.path(), {});
  write_text(run + "/matrix.csv", "stage,count,color,read\n1,50,,\n2,x,60,\n");
  EXPECT_CONTAINS(refusal(), "matrix.csv:3: score 'x'");
  write_text(run + "/matrix.csv", "stage,count,color,read\n1,50,,\n2,40,60,\n");
  EXPECT_CONTAINS(refusal(), "has 2 of 3 stages");
  write_text(run + "/matrix.csv", "stage,count,color,read\n1,50,,\n2,40,60,\n3,10,10,10\n");
  EXPECT_CONTAINS(load_runs({folder.path()}).notes.at(0), "AP 55 instead of 10");
  write_text(run + "/matrix.csv", "stage,count,color,read\n1,,,\n2,,60,\n3,,10,10\n");
  EXPECT_CONTAINS(refusal(), "has no score of task 'count'");
}

TEST_F(Runs, ScoresComeFromTheMatrixWhateverMetricsJsonSays) {
  const auto right = load_runs({write_run(folder.path(), {})});
  ASSERT_EQ(right.notes.size(), 1u);
  EXPECT_CONTAINS(right.notes[0], "has no checksums.json");
  const nlohmann::json forged[] = {99.5, nullptr};
  for (const auto& value : forged) {
    edit(Key("/scores/AP"), value);
    const auto set = load_runs({folder.path()});
    EXPECT_DOUBLE_EQ(set.runs[0].score("AP"), 55);
    ASSERT_EQ(set.notes.size(), 2u);
    EXPECT_CONTAINS(set.notes[0], "metrics.json contradicts the score matrix (AP ");
    EXPECT_CONTAINS(set.notes[0], "instead of 55)");
  }
  edit(Key("/scores/AF"), 0);
  EXPECT_CONTAINS(load_runs({folder.path()}).notes.at(0), "AF 0 instead of 7.5");
}

TEST_F(Runs, CaptionScoresMayExceedAHundred) {
  FabricatedRun run;
  run.rows = {{150}, {140, 60}, {145, 50, 230.5}};
  run.predictions = false;
  write_run(folder.path(), run);
  EXPECT_DOUBLE_EQ(load_runs({folder.path()}).runs[0].score("AP"), (145 + 50 + 230.5) / 3);
  run.label = run.method = "joint";
  run.rows = {{150, 60, 230.5}};
  write_run(folder.path(), run);
  EXPECT_EQ(load_runs({folder / "joint"}).runs[0].matrix.rows[0][2], 230.5);
}

TEST_F(Runs, TaskNamesWithCommasQuotesAndSpaces) {
  FabricatedRun run;
  run.tasks = {"count, or not", "the \"color\"", " read"};
  write_run(folder.path(), run);
  EXPECT_EQ(load_runs({folder.path()}).runs[0].matrix.tasks, run.tasks);
}

TEST_F(Runs, JointMatrices) {
  FabricatedRun joint;
  joint.label = joint.method = "joint";
  joint.rows = {{70, 80, 90}};
  const auto run = write_run(folder.path(), joint);
  auto set = load_runs({folder.path()});
  EXPECT_EQ(set.runs[0].matrix.zero_shot, (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(set.runs[0].matrix.rows.back(), (std::vector<double>{70, 80, 90}));
  EXPECT_TRUE(set.runs[0].joint());
  // Runs of earlier versions say it by their matrix alone.
  const auto metrics = read_text(run + "/metrics.json");
  auto earlier = nlohmann::json::parse(metrics);
  EXPECT_EQ(earlier.erase("one_stage"), 1u);
  write_text(run + "/metrics.json", earlier.dump());
  EXPECT_TRUE(load_runs({folder.path()}).runs[0].joint());
  write_text(run + "/metrics.json", metrics);
  write_text(run + "/matrix.csv", "stage,count,color,read\n0,1,2,3\n");
  EXPECT_CONTAINS(refusal(), "no row of final scores");
  write_text(run + "/matrix.csv", "stage,count,color,read\n3,1,,3\n");
  EXPECT_CONTAINS(refusal(), "matrix.csv:2: score '' of task 'color'");
  write_text(run + "/matrix.csv", "stage,count\n3,1,2\n");
  EXPECT_CONTAINS(refusal(), "has 2 scores but the header names 1");
}

TEST_F(Runs, LogsThroughStagesAndResumes) {
  const auto folder_of_run = write_run(folder.path(), {});
  const auto run = load_runs({folder.path()}).runs[0];
  const auto line = [](int stage, int step, double loss) {
    return nlohmann::json{{"stage", stage}, {"current_steps", step}, {"loss", loss}}.dump() + "\n";
  };
  write_text(folder_of_run + "/log.jsonl", line(1, 1, 9) + line(1, 2, 8) + "{\"eval\":1}\n\n" + line(2, 1, 7) +
                                               line(2, 2, 6) + line(2, 3, 5) + line(2, 2, 4) + line(3, 1, 3));
  auto log = read_loss_log(run);
  EXPECT_EQ(log.step, (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(log.losses["loss"], (std::vector<double>{9, 8, 7, 4, 3}));
  EXPECT_EQ(log.boundaries, (std::vector<double>{3, 5}));
  // A counter that runs through all stages.
  write_text(folder_of_run + "/log.jsonl", line(1, 10, 9) + line(2, 20, 8) + line(3, 30, 7) + line(2, 20, 6));
  log = read_loss_log(run);
  EXPECT_EQ(log.step, (std::vector<double>{10, 20}));
  EXPECT_EQ(log.boundaries, (std::vector<double>{20}));
  write_text(folder_of_run + "/log.jsonl", line(1, 1, 9) + "{\"loss\": \n");
  EXPECT_CONTAINS(error_of([&] { read_loss_log(run); }), "log.jsonl:2:10: not valid JSON");
  write_text(folder_of_run + "/log.jsonl", "{\"loss\": 1}\n");
  EXPECT_CONTAINS(error_of([&] { read_loss_log(run); }), "log.jsonl:1: key 'current_steps' is missing");
}

TEST_F(Runs, PredictionsOfTheLastStage) {
  const auto folder_of_run = write_run(folder.path(), {});
  const auto run = load_runs({folder.path()}).runs[0];
  const auto predictions = read_last_predictions(run);
  ASSERT_EQ(predictions.tasks.size(), 3u);
  EXPECT_EQ(predictions.tasks[0].size(), 20u);
  const std::string path = folder_of_run + "/predictions/stage-03-task-02.jsonl";
  write_text(path, "{\"question_id\":1,\"score\":2}\n");
  EXPECT_CONTAINS(error_of([&] { read_last_predictions(run); }), "task-02.jsonl:1: 'score' must be");
  write_text(path, "{\"question_id\":1,\"score\":1}\n{\"question_id\":1,\"score\":1}\n");
  EXPECT_CONTAINS(read_last_predictions(run).problem, "stands twice");
  std::filesystem::remove(path);
  EXPECT_CONTAINS(read_last_predictions(run).problem, "no predictions of task 'color'");
}

TEST_F(Runs, AnalysisOfAStage) {
  const auto folder_of_run = write_run(folder.path(), {});
  const auto run = load_runs({folder.path()}).runs[0];
  EXPECT_EQ(analysed_stages(run), (std::vector<int64_t>{1, 2, 3}));
  const auto analysis = read_analysis(run, 2, true);
  ASSERT_TRUE(analysis.spectra);
  EXPECT_EQ(analysis.spectra->skills(), (std::set<int64_t>{0, 1}));
  EXPECT_EQ(analysis.spectra->skill_name(1), "color");
  EXPECT_EQ(analysis.spectra->moments(1, {"color"}).radial.size(), 8u);
  ASSERT_EQ(analysis.overlays.size(), 2u);
  EXPECT_EQ(analysis.overlays[0].image.size(), 16u * 16 * 3);
  EXPECT_EQ(analysis.overlays[0].map.size(), 64u);
  const std::string path = folder_of_run + "/stages/02/analysis.safetensors";
  TensorList tensors;
  tensors.add<int64_t>("skill", Dtype::I64, {1}, {9});
  tensors.add<int64_t>("task", Dtype::I64, {1}, {0});
  tensors.add<int64_t>("count", Dtype::I64, {1}, {9});
  for (const char* name : {"mean", "variance", "radial", "angular"}) tensors.add<float>(name, Dtype::F32, {1, 1}, {1});
  std::map<std::string, std::string> metadata = {{"skill_names", "[\"count\"]"}, {"task_names", "[\"count\"]"}};
  write_safetensors(path, tensors.views(), metadata);
  EXPECT_CONTAINS(error_of([&] { read_analysis(run, 2, true); }), "skill 9 has no name");
  metadata.erase("skill_names");
  write_safetensors(path, tensors.views(), metadata);
  EXPECT_CONTAINS(error_of([&] { read_analysis(run, 2, true); }), "metadata 'skill_names' is missing");
}

}  // namespace
}  // namespace asr
