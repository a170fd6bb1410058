// Tables: means, intervals, pairing, stars, and what is said of what is missing.
#include "report/compare.h"

#include <cmath>

#include "report/tables.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

FabricatedRun run_of(const std::string& label, int64_t seed = 0, int64_t order = 0) {
  FabricatedRun run;
  run.label = label;
  run.method = label.substr(0, label.find('-'));
  run.seed = seed;
  run.order = order;
  run.log = run.analysis = false;
  return run;
}

FabricatedRun shifted(FabricatedRun run, double points) {
  for (auto& row : run.rows)
    for (double& value : row) value += points;
  return run;
}

const Group& group_of(const Comparison& comparison, const std::string& label) {
  for (const auto& group : comparison.tables.at(0).groups)
    if (group.label == label) return group;
  throw std::runtime_error("no group " + label);
}

class Compare : public testing::Test {
 protected:
  Comparison compare(const CompareOptions& options = {}) {
    set = load_runs({folder.path()});
    return compare_runs(set, options);
  }
  TemporaryFolder folder;
  RunSet set;
};

TEST(Intervals, AreDeterministicAndContainTheMean) {
  const auto a = spread_of({1, 2, 3, 4, 10}), b = spread_of({1, 2, 3, 4, 10});
  EXPECT_DOUBLE_EQ(a.mean, 4);
  EXPECT_NEAR(a.deviation, std::sqrt(50 / 4.0), 1e-12);
  EXPECT_EQ(a.interval.low, b.interval.low);
  EXPECT_LT(a.interval.low, 4);
  EXPECT_GT(a.interval.high, 4);
  EXPECT_FALSE(spread_of({5}).interval.known());
  EXPECT_EQ(spread_of({NAN}).n, 0);
}

TEST(Intervals, MatchTheNormalTheoryForManyValues) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(i % 2);
  const auto interval = bootstrap_within({values, values});
  const double expected = 1.96 * std::sqrt(0.25 / 1000 / 2);  // two groups of 1000
  EXPECT_NEAR(interval.low, 0.5 - expected, 0.001);
  EXPECT_NEAR(interval.high, 0.5 + expected, 0.001);
  EXPECT_FALSE(bootstrap_within({{1, 2}, {}}).known());
}

TEST_F(Compare, MeansOverRunsAndTheLinesBeside) {
  write_run(folder.path(), run_of("vanilla"));
  write_run(folder.path(), shifted(run_of("asr"), 10));
  write_run(folder.path(), shifted(run_of("asr", 1), 20));
  auto joint = run_of("joint");
  joint.rows = {{80, 80, 80}};
  joint.replay_free = false;
  write_run(folder.path(), joint);
  const auto comparison = compare();
  const auto& groups = comparison.tables.at(0).groups;
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].label, "zero-shot");
  EXPECT_EQ(groups[1].label, "vanilla");
  EXPECT_EQ(groups[3].label, "joint");
  EXPECT_DOUBLE_EQ(groups[0].scores[0].mean, 20);
  EXPECT_DOUBLE_EQ(group_of(comparison, "asr").scores[0].mean, 70);
  EXPECT_DOUBLE_EQ(groups[3].scores[0].mean, 80);
  EXPECT_EQ(groups[3].scores[1].n, 0) << "no forgetting for joint, whatever the file says";
  const auto text = text_tables(comparison);
  EXPECT_CONTAINS(text, "joint †");
  EXPECT_CONTAINS(text, "70.00±7.07");
  EXPECT_CONTAINS(text, "forgetting is not defined");
}

TEST_F(Compare, FitsEightyColumns) {
  for (int64_t seed = 0; seed < 3; ++seed) {
    write_run(folder.path(), run_of("vanilla", seed));
    write_run(folder.path(), shifted(run_of("asr-no-angular", seed), 5.0 * static_cast<double>(seed)));
  }
  std::istringstream lines(text_tables(compare()));
  for (std::string line; std::getline(lines, line);) {
    const auto characters = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
    EXPECT_LE(characters, 80) << line;
  }
}

TEST_F(Compare, ThreePairsAskTheRuns) {
  for (int64_t seed = 0; seed < 3; ++seed) {
    write_run(folder.path(), run_of("vanilla", seed));
    write_run(folder.path(), shifted(run_of("asr", seed), 5.0 * static_cast<double>(seed + 1)));
  }
  write_run(folder.path(), shifted(run_of("asr", 7), -40));  // no partner: in the mean, not in the difference
  const auto comparison = compare();
  const auto& d = comparison.tables[0].differences.at(0);
  EXPECT_EQ(d.pairs, 3);
  EXPECT_EQ(d.over, IntervalOver::pairs);
  EXPECT_NEAR(d.mean[0], 10, 1e-9);
  EXPECT_NEAR(d.intervals[0].low, 5, 1e-9);
  EXPECT_NEAR(d.intervals[0].high, 15, 1e-9);
  EXPECT_NEAR(d.mean[1], 0, 1e-9);
  EXPECT_FALSE(d.intervals[1].excludes_zero());
  const auto text = text_tables(comparison);
  EXPECT_CONTAINS(text, "+10.00*");
  EXPECT_CONTAINS(text, "5.0..15.0");
  EXPECT_CONTAINS(text, "one time in four");
}

TEST_F(Compare, FewerPairsAskTheSamples) {
  auto vanilla = run_of("vanilla"), better = shifted(run_of("asr"), 20);
  vanilla.questions = better.questions = 200;
  write_run(folder.path(), vanilla);
  write_run(folder.path(), better);
  auto same = run_of("ewc");
  same.questions = 200;
  write_run(folder.path(), same);
  const auto comparison = compare();
  const auto& asr = comparison.tables[0].differences.at(0);
  EXPECT_EQ(asr.over, IntervalOver::samples);
  EXPECT_TRUE(asr.intervals[0].excludes_zero());
  EXPECT_LT(asr.intervals[0].low, 20);
  EXPECT_GT(asr.intervals[0].high, 20);
  EXPECT_FALSE(asr.intervals[2].known());
  const auto& ewc = comparison.tables[0].differences.at(1);
  EXPECT_TRUE(ewc.intervals[0].known());
  EXPECT_FALSE(ewc.intervals[0].excludes_zero());
  EXPECT_CONTAINS(text_tables(comparison), "paired by question_id");
}

TEST_F(Compare, WhatTheSamplesCannotSayIsSaid) {
  write_run(folder.path(), run_of("vanilla"));
  auto silent = run_of("asr");
  silent.predictions = false;
  write_run(folder.path(), silent);
  const auto other = write_run(folder.path(), run_of("ewc"));  // a corpus metric: samples do not give the score
  write_text(other + "/predictions/stage-03-task-01.jsonl", R"({"question_id":1,"score":1})");
  const auto text = text_tables(compare());
  EXPECT_CONTAINS(text, "has no predictions");
  EXPECT_CONTAINS(text, "no interval over samples");
  EXPECT_CONTAINS(text, "give AP");
}

TEST_F(Compare, SeveralStreamsHaveTheirOwnTables) {
  write_run(folder.path(), run_of("vanilla"));
  auto other = run_of("asr");
  other.stream = "world-cit";
  other.tasks = {"a", "b", "c"};
  write_run(folder.path(), other);
  EXPECT_EQ(compare().tables.size(), 2u);
}

TEST_F(Compare, Formats) {
  for (int64_t seed = 0; seed < 3; ++seed) {
    write_run(folder.path(), run_of("vanilla", seed));
    write_run(folder.path(), shifted(run_of("asr-a_b|c", seed), 5));
  }
  const auto comparison = compare();
  EXPECT_CONTAINS(markdown_tables(comparison), "| asr-a\\_b\\|c | 3 | 60.00±0.00 (60.0..60.0) |");
  EXPECT_CONTAINS(latex_tables(comparison), "asr-a\\_b|c & 3 & 60.00$\\pm$0.00");
  EXPECT_CONTAINS(latex_tables(comparison), "\\bottomrule");
  EXPECT_CONTAINS(csv_table(comparison), "world-10,tiny-S,asr-a_b|c,1,AP,3,60,");
  EXPECT_CONTAINS(csv_table(comparison), ",vanilla,3,5,5,5,pairs,1,,val,generate,");
  const auto json = comparison_json(comparison);
  EXPECT_DOUBLE_EQ(json["tables"][0]["differences"][0]["scores"]["AP"]["mean"].get<double>(), 5);
  EXPECT_TRUE(json["tables"][0]["differences"][0]["scores"]["AP"]["excludes_zero"].get<bool>());
}

TEST_F(Compare, ChosenScoresAndBaseline) {
  write_run(folder.path(), run_of("ewc"));
  write_run(folder.path(), shifted(run_of("asr"), 5));
  EXPECT_TRUE(compare().tables[0].differences.empty());
  CompareOptions options;
  options.against = "ewc";
  options.metrics = parse_metric_list("BWT,AP");
  const auto comparison = compare(options);
  EXPECT_EQ(comparison.tables[0].groups[1].label, "ewc");
  EXPECT_NEAR(comparison.tables[0].differences.at(0).mean[1], 5, 1e-9);
  options.against = "ewcc";
  EXPECT_CONTAINS(error_of([&] { compare(options); }), "did you mean 'ewc'?");
  EXPECT_CONTAINS(error_of([] { parse_metric_list("AP,FA"); }), "'FA' is not a score");
  EXPECT_CONTAINS(error_of([] { parse_metric_list(""); }), "is not a score");
}

TEST_F(Compare, MixedTasksAreRefused) {
  write_run(folder.path(), run_of("vanilla"));
  auto other = run_of("asr");
  other.tasks = {"count", "color", "locate"};
  write_run(folder.path(), other);
  auto message = error_of([&] { compare(); });
  EXPECT_CONTAINS(message, "locate");
  EXPECT_CONTAINS(message, "read");
  other.tasks = {"color", "count", "read"};
  write_run(folder.path(), other);
  EXPECT_CONTAINS(error_of([&] { compare(); }), "both are order 0");
  other.order = 1;
  std::filesystem::remove_all(folder / "asr");
  write_run(folder.path(), other);
  EXPECT_CONTAINS(text_tables(compare()), "shares no seed and order");
}

}  // namespace
}  // namespace asr
