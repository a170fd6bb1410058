// The sentence that opens the report, and the numbers of the figures that are read off score matrices.
#include "report/answer.h"

#include "report/figures.h"
#include "report/page.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

class Answers : public testing::Test {
 protected:
  void add(const std::string& label, const std::vector<std::vector<double>>& rows, int64_t seed = 0,
           bool replay_free = true) {
    FabricatedRun run;
    run.label = label;
    run.method = label;
    run.seed = seed;
    run.rows = rows;
    run.replay_free = replay_free;
    run.log = run.predictions = run.analysis = false;
    write_run(folder.path(), run);
  }

  const ComparisonTable& table(const CompareOptions& options = {}) {
    set = load_runs({folder.path()});
    comparison = compare_runs(set, options);
    return comparison.tables.at(0);
  }

  TemporaryFolder folder;
  RunSet set;
  Comparison comparison;
};

const std::vector<std::vector<double>> kForgets = {{80}, {40, 60}, {20, 36, 70}};  // (20 + 36) / (80 + 60) = 40 %
const std::vector<std::vector<double>> kKeeps = {{50}, {50, 50}, {45, 45, 66}};    // 90 %

TEST_F(Answers, SaysWhatIsKept) {
  add("vanilla", kForgets);
  add("asr", kKeeps);
  add("joint", {{80, 80, 80}}, 0, false);
  EXPECT_EQ(answer_sentence(table()),
            "asr keeps 90 % of what it learnt and ends at AP 52.0; plain fine-tuning keeps 40 % of what it learnt and "
            "ends at AP 42.0; joint training reaches AP 80.0. One run each: no interval.");
}

TEST_F(Answers, IntervalsOverRuns) {
  add("vanilla", kForgets);
  add("asr", kKeeps);
  add("asr", {{50}, {50, 50}, {50, 50, 66}}, 1);  // 100 %
  const auto sentence = answer_sentence(table());
  EXPECT_CONTAINS(sentence, "asr keeps 95 % (90..100, 2 runs) of what it learnt");
  EXPECT_CONTAINS(sentence, "In brackets: 95 % intervals.");
}

TEST_F(Answers, WhatKeepsOldDataIsNamedApart) {
  add("vanilla", kForgets);
  add("asr", kKeeps);
  add("er", {{80}, {80, 80}, {80, 80, 80}}, 0, false);
  EXPECT_CONTAINS(answer_sentence(table()), "er, which keeps old data, keeps 100 % of what it learnt");
}

TEST_F(Answers, WithoutABaselineItSaysSo) {
  add("asr", kKeeps);
  EXPECT_CONTAINS(answer_sentence(table()), "Not among these runs: 'vanilla', to compare with.");
  CompareOptions options;
  add("ewc", kForgets);
  options.against = "ewc";
  EXPECT_CONTAINS(answer_sentence(table(options)), "; ewc keeps 40 % of what it learnt");
}

TEST_F(Answers, APlainWinnerIsNamedAsSuch) {
  add("vanilla", kKeeps);
  add("asr", kForgets);
  EXPECT_EQ(answer_sentence(table()),
            "plain fine-tuning keeps 90 % of what it learnt and ends at AP 52.0. No label without old data is better. "
            "One run each: no interval.");
}

TEST_F(Answers, NothingLearntIsNothingKept) {
  add("asr", {{0}, {0, 0}, {0, 0, 5}});
  EXPECT_CONTAINS(answer_sentence(table()), "asr ends at AP 1.7");
}

TEST_F(Answers, StandsInTheMarkdownToo) {
  add("asr", kKeeps);
  table();
  const auto text = report_markdown(comparison);
  EXPECT_CONTAINS(text, "asr keeps 90 % of what it learnt");
  EXPECT_CONTAINS(text, "| asr | 1 | 52.00 |");
}

TEST_F(Answers, LabelsKeepTheirColourInEveryTable) {
  add("vanilla", kForgets);
  add("asr", kKeeps);
  FabricatedRun other;
  other.label = "ewc";
  other.backbone = "another";
  write_run(folder.path(), other);
  other.label = "asr";
  other.method = "asr";
  other.seed = 7;
  write_run(folder.path(), other);
  table();
  ASSERT_EQ(comparison.tables.size(), 2u);
  EXPECT_EQ(comparison.tables[0].style_of("asr"), comparison.tables[1].style_of("asr"));
  EXPECT_NE(comparison.tables[0].style_of("asr"), comparison.tables[0].style_of("vanilla"));
  EXPECT_NE(comparison.tables[0].style_of("asr"), comparison.tables[0].style_of("ewc"));
  EXPECT_EQ(comparison.tables[0].style_of("asr:learning_rate=1"), comparison.tables[0].style_of("asr"));
}

// m[a,b] less the best of its column: 80, 60 and 70.
TEST_F(Answers, InterferenceIsAgainstTheBestOfATask) {
  add("vanilla", {{80}, {40, 50}, {20, 60, 70}});
  EXPECT_EQ(figure_interference(table()).csv,
            "label,after,task,delta\n"
            "vanilla,1 count,count,0\nvanilla,2 color,count,-40\nvanilla,2 color,color,-10\n"
            "vanilla,3 read,count,-60\nvanilla,3 read,color,0\nvanilla,3 read,read,0\n");
}

TEST_F(Answers, StageDynamics) {
  add("vanilla", kForgets);
  EXPECT_EQ(figure_stage_curves(table()).csv,
            "label,dynamic,stage,mean,deviation\n"
            "vanilla,plasticity,1,80,\nvanilla,plasticity,2,60,\nvanilla,plasticity,3,70,\n"
            "vanilla,stability,1,80,\nvanilla,stability,2,50,\nvanilla,stability,3,42,\n"
            "vanilla,running mean,1,80,\nvanilla,running mean,2,65,\nvanilla,running mean,3,57.3333,\n");
}

TEST_F(Answers, JointTrainingAloneHasNoInterference) {
  add("joint", {{80, 80, 80}});
  EXPECT_CONTAINS(figure_interference(table()).html, "has no stages that could interfere");
  EXPECT_EQ(answer_sentence(table()), "joint reaches AP 80.0.");
}

}  // namespace
}  // namespace asr
