// Figures that put runs into groups: variants by what they change, backbones beside each other, the looks of a model
// before and after; and the tables that have numbers of their own.
#include "base/text.h"
#include "report/figure_files.h"
#include "tests/report/figure_fixture.h"

namespace asr {
namespace {

class FigureGroups : public FigureData {
 protected:
  // A complete run whose AP is 100 / 3 times what the last task adds, and whose options are these.
  void write_variant(const std::string& label, double last, const nlohmann::json& options) {
    auto run = run_of(label, "asr");
    run.rows = {{50}, {40, 60}, {30, 50, last}};
    const auto path = write_run(folder.path(), run);
    write_text(path + "/fingerprint.json", nlohmann::json{{"format", 2}, {"config", {{"asr", options}}}}.dump());
  }
};

// AP is (80 + last) / 3; the full method's last score is 70.
TEST_F(FigureGroups, VariantsByWhatTheyChange) {
  const nlohmann::json full = {
      {"beta", 0.5}, {"prototypes", "skill"}, {"weighting", "confidence"}, {"spectrum", "full"}};
  const auto with = [&](const char* option, const nlohmann::json& value) {
    auto out = full;
    out[option] = value;
    return out;
  };
  write_variant("asr", 70, full);
  write_variant("a", 67, with("beta", 0.0));
  write_variant("b", 64, with("prototypes", "global"));
  write_variant("c", 61, with("prototypes", "task"));
  write_variant("d", 58, with("weighting", "fixed"));
  write_variant("e", 55, with("spectrum", "raw"));
  write_variant("f", 52, with("metric", "identity"));
  std::string ap;
  const auto csv = draw(figure_variants).csv;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);)
    if (line.find(",AP,") != std::string::npos) ap += line + "\n";
  EXPECT_EQ(ap,
            "asr,a,Single-factor ablations,AP,1,-1,,\nasr,b,Single-factor ablations,AP,1,-2,,\n"
            "asr,e,Spectrum design,AP,1,-5,,\n"
            "asr,b,Prototype design,AP,1,-2,,\nasr,c,Prototype design,AP,1,-3,,\n"
            "asr,d,Regularization design,AP,1,-4,,\nasr,f,Other variants,AP,1,-6,,\n");
}

// Two seeds on the larger backbone, one on the smaller; rows say their own stream's name.
TEST_F(FigureGroups, BackbonesInTheOrderOfTheirAdapters) {
  for (const auto& [backbone, last, seed] :
       {std::make_tuple("z-small", 70, 0), {"a-large", 73, 0}, {"a-large", 79, 1}}) {
    auto run = run_of("asr", "asr");
    run.backbone = backbone;
    run.seed = seed;
    run.rows = {{50}, {40, 60}, {30, 50, static_cast<double>(last)}};
    const auto path = write_run(folder / backbone, run);
    if (run.backbone == "z-small") continue;
    auto metrics = nlohmann::json::parse(read_text(path + "/metrics.json"));
    metrics["cost"]["adapter_parameters"] = 1000000;
    write_text(path + "/metrics.json", metrics.dump());
  }
  const auto runs = load_runs({folder / "z-small", folder / "a-large"});
  const auto compared = compare_runs(runs, {});
  EXPECT_EQ(figure_backbones(compared).csv,
            "stream,backbone,label,metric,runs,mean,low,high\n"
            "world-10,z-small,asr,AP,1,50,,\nworld-10,a-large,asr,AP,2,52,51,53\n"
            "world-10,z-small,asr,AF,1,15,,\nworld-10,a-large,asr,AF,2,15,15,15\n");
  std::vector<std::string> unread;
  std::set<std::string> names;
  for (const auto& file : figure_files(compared, unread)) names.insert(file.name);
  EXPECT_TRUE(names.count("score_matrices-world-10-z-small-score-matrix-of-asr.svg")) << "of which table";
  EXPECT_TRUE(names.count("backbones.csv"));
  const auto one = load_runs({folder / "z-small"});
  EXPECT_CONTAINS(figure_backbones(compare_runs(one, {})).html, "no stream has runs on two backbones");
}

// Maps of four cells: after the stage that learnt the task all mass in the first, at the end half of it in the second.
TEST_F(FigureGroups, CasesBeforeAndAfter) {
  auto run = run_of("asr", "asr");
  run.rows = {{50}, {40, 60}};
  run.tasks = {"count", "color"};
  run.zero_shot = {10, 20};
  const auto path = write_run(folder.path(), run);
  for (const int stage : {1, 2}) {
    TensorList tensors;
    for (const char* name : {"skill", "task"}) tensors.add<int64_t>(name, Dtype::I64, {1}, {0});
    tensors.add<int64_t>("count", Dtype::I64, {1}, {2});
    for (const char* name : {"mean", "variance", "radial", "angular"})
      tensors.add<float>(name, Dtype::F32, {1, 1}, {1});
    tensors.add<uint8_t>("overlay.image", Dtype::U8, {1, 1, 1, 3}, {10, 20, 30});
    tensors.add<float>("overlay.map", Dtype::F32, {1, 2, 2},
                       stage == 1 ? std::vector<float>{2, 0, 0, 0} : std::vector<float>{0.5, 0.5, 0, 0});
    const nlohmann::json words = {{{"question", "How many?"},
                                   {"answer", "2"},
                                   {"prediction", stage == 1 ? "2" : "3"},
                                   {"task", "count"},
                                   {"functional", {"how"}}}};
    std::filesystem::create_directories(cat(path, "/stages/0", stage));
    write_safetensors(cat(path, "/stages/0", stage, "/analysis.safetensors"), tensors.views(),
                      {{"asr_analysis", "2"},
                       {"skill_names", "[\"count\"]"},
                       {"task_names", "[\"count\"]"},
                       {"overlay", words.dump()}});
  }
  const auto figure = draw(figure_overlays);
  EXPECT_EQ(figure.csv,
            "case,label,task,question,answer,first_stage,first_prediction,last_stage,last_prediction,attention_moved\n"
            "1,asr,count,How many?,2,1,2,2,3,0.5\n");
}

TEST_F(FigureGroups, StorageAndLossesHaveTheirNumbersToo) {
  auto run = run_of("asr", "asr");
  run.replay_free = false;
  const auto path = write_run(folder.path(), run);
  write_text(path + "/log.jsonl", R"({"loss":2.5,"task_loss":2,"spectral_loss":0.5,"current_steps":1,"stage":1})"
                                  "\n");
  EXPECT_EQ(draw(figure_storage).csv,
            "label,keeps_old_data,stored_bytes,adapter_parameters,step_ms,step_ratio,train_seconds,eval_seconds\n"
            "asr,yes,4096,73728,12.5,,95,8\n");
  EXPECT_EQ(draw(figure_losses).csv,
            "label,term,step,value\nasr,loss,1,2.5\nasr,task_loss,1,2\nasr,spectral_loss,1,0.5\n");
}

TEST_F(FigureGroups, StorageSaysHowMuchLongerAStepTakesThanTheBaselines) {
  for (const auto& [label, milliseconds] : std::map<std::string, double>{{"vanilla", 10}, {"asr", 12.5}}) {
    auto run = run_of(label, label);
    run.step_ms = milliseconds;
    write_run(folder.path(), run);
  }
  const auto figure = draw(figure_storage);
  EXPECT_CONTAINS(figure.csv, "vanilla,no,4096,73728,10,1,95,8\n");
  EXPECT_CONTAINS(figure.csv, "asr,no,4096,73728,12.5,1.25,95,8\n");
  EXPECT_CONTAINS(figure.html, "<td>12.5 ms (1.25x)</td>");
}

TEST_F(FigureGroups, EveryDrawingHasItsNumbersBesideIt) {
  for (const char* label : {"vanilla", "asr"}) {
    FabricatedRun run;
    run.label = run.method = label;
    write_run(folder.path(), run);
  }
  set = load_runs({folder.path()});
  std::vector<std::string> unread;
  std::set<std::string> drawn, numbers;
  for (const auto& file : figure_files(compare_runs(set, {}), unread)) {
    const auto figure = file.name.substr(0, file.name.find_first_of("-."));
    (file.name.substr(file.name.size() - 4) == ".csv" ? numbers : drawn).insert(figure);
  }
  EXPECT_GT(drawn.size(), 10u);
  for (const auto& figure : drawn) EXPECT_TRUE(numbers.count(figure)) << figure;
}

// One damaged analysis: it is named once, the label's other figures are written, and those of other labels too.
TEST_F(FigureGroups, ADamagedFileTakesAwayWhatNeedsItAlone) {
  FabricatedRun run, whole;
  whole.label = whole.method = "vanilla";
  const auto path = write_run(folder.path(), run);
  write_run(folder.path(), whole);
  write_text(path + "/stages/02/analysis.safetensors", "short");
  set = load_runs({folder.path()});
  std::vector<std::string> unread;
  std::set<std::string> figures;
  std::string drift;
  const auto compared = compare_runs(set, {});
  for (const auto& file : figure_files(compared, unread)) {
    figures.insert(file.name.substr(0, file.name.find_first_of("-.")));
    if (file.name.rfind("drift-", 0) == 0 && ends_with(file.name, ".csv")) drift = file.content;
  }
  ASSERT_EQ(unread.size(), 1u);
  EXPECT_CONTAINS(unread[0], "stages/02/analysis.safetensors");
  EXPECT_TRUE(figures.count("score_matrices"));
  EXPECT_CONTAINS(drift, "vanilla,count,1,2,");
  EXPECT_EQ(drift.find("asr,count"), std::string::npos);
  EXPECT_CONTAINS(figure_drift(compared.tables[0]).html, "Not shown for asr: " + path);
}

}  // namespace
}  // namespace asr
