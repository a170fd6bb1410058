// Runs in a table: what is written is what is read, what is merged replaces its like, and every bad row has its line.
#include "report/runs_csv.h"

#include <cmath>

#include "report/tables.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

class RunsCsv : public testing::Test {
 protected:
  // The runs of the folder, written to the table and read again.
  RunSet round_trip() {
    merge_runs_csv({table, ""}, load_runs({folder / "out"}).runs);
    return load_runs({table});
  }
  static std::string shown(const RunSet& set) {
    auto comparison = compare_runs(set, {});
    comparison.notes.clear();  // of files that have no checksums
    return text_tables(comparison) + csv_table(comparison);
  }
  std::string refusal_of(const std::string& text) {
    write_text(table, text);
    return error_of([&] { load_runs({table}); });
  }
  // A good table with one text replaced in it.
  std::string refusal_with(const std::string& from, const std::string& to) {
    write_run(folder / "out", {});
    std::filesystem::remove(table);
    merge_runs_csv({table, ""}, load_runs({folder / "out"}).runs);
    std::string text = read_text(table);
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return refusal_of(text.replace(text.find(from), from.size(), to));
  }
  TemporaryFolder folder;
  std::string table = folder / "runs.csv";
};

TEST_F(RunsCsv, AnswersOutsideAreAColumnWhereARunHasThem) {
  FabricatedRun run;
  write_run(folder / "out", run);
  EXPECT_EQ(compare_runs(load_runs({folder / "out"}), {}).metrics.back(), "MFT");
  std::string text = "stage";
  for (const auto& task : run.tasks) text += "," + task;
  std::string last = "\n" + std::to_string(run.tasks.size()) + ",10,40";  // and no wrong answer in the others
  for (size_t b = 2; b < run.tasks.size(); ++b) last += ",";
  write_text(folder / "out/" + run.label + "/answers_outside.csv", text + last + "\n");
  const auto folders = load_runs({folder / "out"}), rows = round_trip();
  EXPECT_DOUBLE_EQ(folders.runs[0].score("outside"), 25);
  EXPECT_DOUBLE_EQ(rows.runs[0].score("outside"), 25);
  EXPECT_EQ(compare_runs(rows, {}).metrics.back(), "outside");
  EXPECT_CONTAINS(text_tables(compare_runs(rows, {})), "outside: percent of the wrong answers");
  write_text(folder / "out/" + run.label + "/answers_outside.csv", text + "\n1,140\n");
  EXPECT_CONTAINS(error_of([&] { load_runs({folder / "out"}); }), "has not one cell for each of");
}

TEST_F(RunsCsv, SettingsAreTheSameForSamplesOfAnotherSeed) {
  FabricatedRun run;
  for (const int64_t seed : {0, 4}) {
    run.seed = seed;
    const auto place = write_run(folder / "out", run);
    const auto data = std::string("world-hue:v2") + (seed > 0 ? ":seed 4" : "");
    write_text(
        place + "/fingerprint.json",
        nlohmann::json{{"format", 2}, {"seed", seed}, {"config", {{"a", 1}}}, {"content", {{"data", data}}}}.dump());
  }
  const auto set = load_runs({folder / "out"});
  ASSERT_EQ(set.runs.size(), 2u);
  EXPECT_FALSE(set.runs[0].settings.empty());
  EXPECT_EQ(set.runs[0].settings, set.runs[1].settings);
}

TEST_F(RunsCsv, TablesComeOutAsFromTheFolders) {
  FabricatedRun run;
  run.tasks = {"count", "yes, no", "=say \"it\" "};
  for (const char* label : {"vanilla", "asr", "@er", "'ewc", "joint"})
    for (const int64_t seed : {0, 1, 2}) {
      run.label = run.method = label;
      run.seed = seed;
      run.replay_free = run.label != "@er";
      run.rows = {{90.0 + static_cast<double>(seed) / 3}, {40, 100.0 / 3}, {45, 50, 70}};
      if (run.joint()) run.rows = {{61, 62, 63.25}};
      write_run(folder / "out", run);
    }
  const auto folders = load_runs({folder / "out"}), rows = round_trip();
  EXPECT_EQ(shown(rows), shown(folders));
  ASSERT_EQ(rows.runs.size(), 15u);
  EXPECT_TRUE(rows.notes.empty());
  EXPECT_EQ(rows.out, "");
  const auto text = read_text(table);
  merge_runs_csv({table, ""}, rows.runs);
  EXPECT_EQ(read_text(table), text) << "written again from itself";
  EXPECT_CONTAINS(text, "\n,world-10,tiny-S,,'@er,0,0,");
  EXPECT_CONTAINS(text, "\n,world-10,tiny-S,,''ewc,0,0,");
  EXPECT_EQ(rows.runs[0].cost.stored_bytes, 4096);
  EXPECT_EQ(rows.runs[0].folder, table + ":2");
}

TEST_F(RunsCsv, HeldOutGroupsAndNovelScores) {
  FabricatedRun run;
  run.stream = "vqacl:vqav2";
  for (const char* group : {"", "G1", "G2"}) {
    run.held_out = group;
    run.label = std::string("asr") + group;
    run.novel = run.held_out.empty() ? std::vector<std::vector<double>>()
                                     : std::vector<std::vector<double>>{{}, {NAN, 30}, {NAN, 20, 40}};
    write_run(folder / "out", run);
  }
  const auto folders = load_runs({folder / "out"}), rows = round_trip();
  EXPECT_EQ(shown(rows), shown(folders));
  EXPECT_CONTAINS(read_text(table), "1; 2 - 30; 3 - 20 40");
  EXPECT_DOUBLE_EQ(rows.runs.back().score("AP_novel"), 30);
}

TEST_F(RunsCsv, MergingReplacesAndAdds) {
  FabricatedRun run;
  write_run(folder / "out", run);
  run.seed = 1;
  write_run(folder / "out", run);
  auto merge = merge_runs_csv({table, ""}, load_runs({folder / "out"}).runs);
  EXPECT_EQ(merge.added, 2u);
  run.rows = {{50}, {40, 60}, {45, 50, 100}};
  write_run(folder / "new", run);
  run.seed = 2;
  write_run(folder / "new", run);
  run.label = "ewc";
  run.complete = false;
  run.rows = {{50}};
  write_run(folder / "new", run);
  merge = merge_runs_csv({table, ""}, load_runs({folder / "new"}).runs);
  EXPECT_EQ(merge.rows, 3u);
  EXPECT_EQ(merge.added, 1u);
  EXPECT_EQ(merge.replaced, 1u);
  ASSERT_EQ(merge.left_out.size(), 1u);
  EXPECT_CONTAINS(merge.left_out[0], "ewc-seed2: not complete; not written");
  const auto rows = load_runs({table}).runs;
  EXPECT_DOUBLE_EQ(rows[0].score("AP"), 55);
  EXPECT_DOUBLE_EQ(rows[1].score("AP"), 65);
  EXPECT_DOUBLE_EQ(rows[2].score("AP"), 65);
}

TEST_F(RunsCsv, ABadTableIsLeftAsItIs) {
  write_run(folder / "out", {});
  const auto runs = load_runs({folder / "out"}).runs;
  write_text(table, "stream,label\nx\n");
  EXPECT_CONTAINS(error_of([&] { merge_runs_csv({table, ""}, runs); }), "runs.csv:1: column 'backbone' is missing");
  EXPECT_EQ(read_text(table), "stream,label\nx\n");
  EXPECT_CONTAINS(error_of([&] { merge_runs_csv({folder / "runs.txt", ""}, runs); }), "ends in .csv");
  write_run(folder / "other", {});
  const auto twice = load_runs({folder / "out", folder / "other"}).runs;
  EXPECT_CONTAINS(error_of([&] { merge_runs_csv({folder / "b.csv", ""}, twice); }), "give one another label");
}

TEST_F(RunsCsv, SettingsAreTheSameForOtherSeedsOnly) {
  FabricatedRun run;
  const auto fingerprint = [&](const char* rate) {
    const auto path = write_run(folder / "out", run);
    write_text(path + "/fingerprint.json",
               cat(R"({"format": 2, "hash": "x", "seed": )", run.seed,
                   R"(, "order": 0, "config": {"eval_split": "test", "rate": )", rate, "}}"));
  };
  fingerprint("0.1");
  run.seed = 1;
  fingerprint("0.1");
  run.seed = 2;
  fingerprint("0.2");
  run.seed = 3;
  write_run(folder / "out", run);
  const auto runs = round_trip().runs;
  EXPECT_EQ(runs[0].settings.size(), 12u);
  EXPECT_EQ(runs[0].settings, runs[1].settings);
  EXPECT_NE(runs[0].settings, runs[2].settings);
  EXPECT_EQ(runs[0].split, "test");
  EXPECT_EQ(runs[3].settings + runs[3].split, "");
}

// The option is what was asked for; a method may bring a head of its own.
TEST_F(RunsCsv, TheHeadIsWhatTheRunSaysOfItself) {
  FabricatedRun run;
  for (const int64_t seed : {0, 1}) {
    run.seed = seed;
    const auto path = write_run(folder / "out", run);
    write_text(path + "/fingerprint.json", R"({"format": 2, "config": {"head": "generate"}})");
    if (seed == 0) continue;
    auto metrics = nlohmann::json::parse(read_text(path + "/metrics.json"));
    metrics["head"] = "answers";
    write_text(path + "/metrics.json", metrics.dump());
  }
  const auto runs = round_trip().runs;
  ASSERT_EQ(runs.size(), 2u);
  for (const auto& found : runs) EXPECT_EQ(found.head, found.seed == 0 ? "generate" : "answers");
}

TEST_F(RunsCsv, BadRows) {
  EXPECT_CONTAINS(refusal_of(""), "runs.csv:1: is empty");
  EXPECT_CONTAINS(refusal_of("a,b\n1,2\n"), "runs.csv:1: a table of runs has no column 'a'");
  EXPECT_CONTAINS(refusal_with("method,", "methods,"), "did you mean 'method'?");
  EXPECT_CONTAINS(refusal_with("Avg", "AP"), "runs.csv:1: column 'AP' stands twice");
  EXPECT_CONTAINS(refusal_with("world-10,", "world-10,extra,"), "runs.csv:2: has ");
  EXPECT_CONTAINS(refusal_with("world-10,", ","), "runs.csv:2: column 'stream' is empty");
  EXPECT_CONTAINS(refusal_with(",0,0,asr", ",0,zero,asr"), "runs.csv:2: column 'seed' holds 'zero'");
  EXPECT_CONTAINS(refusal_with("asr,1,", "asr,yes,"), "column 'replay_free' holds 'yes', not 0 or 1");
  EXPECT_CONTAINS(refusal_with("12.5", "fast"), "column 'step_ms' holds 'fast', not a number");
  EXPECT_CONTAINS(refusal_with("3 45 50 70", "3 45 x 70"), "runs.csv:2: column 'matrix':5: score 'x'");
  EXPECT_CONTAINS(refusal_with("3 45 50 70", "3 45 50 70 80"), "is not a stage and up to 3 scores");
  EXPECT_CONTAINS(refusal_with("; 3 45 50 70", ""), "has 2 of 3 stages");
  EXPECT_CONTAINS(refusal_with("\"count,color,read\"", "\"count,count,read\""), "column 'tasks'");
  EXPECT_CONTAINS(refusal_with("\"count,color,read\"", "\"count,color,read"), "a quoted field does not end");
  const auto header = read_text(table).substr(0, read_text(table).find('\n') + 1);
  EXPECT_CONTAINS(refusal_of(header), "has a header but no run");
}

TEST_F(RunsCsv, ARowTwiceAndScoresThatContradictTheMatrix) {
  write_run(folder / "out", {});
  round_trip();
  auto text = read_text(table);
  EXPECT_CONTAINS(refusal_of(text + text.substr(text.find('\n') + 1)), "runs.csv:3: is the same run as ");
  text.replace(text.find(",55,"), 4, ",99,");
  write_text(table, text);
  const auto set = load_runs({table});
  EXPECT_DOUBLE_EQ(set.runs[0].score("AP"), 55);
  ASSERT_EQ(set.notes.size(), 1u);
  EXPECT_CONTAINS(set.notes[0], "runs.csv:2: the columns contradict the score matrix (AP 99 instead of 55)");
}

// A label may stand in several searches of one stream; each is read alone, or told apart.
TEST_F(RunsCsv, ASeriesIsReadAlone) {
  FabricatedRun run;
  write_run(folder / "first", run);
  run.rows = {{50}, {40, 60}, {15, 20, 25}};
  write_run(folder / "second", run);
  merge_runs_csv({table, "short"}, load_runs({folder / "first"}).runs);
  EXPECT_DOUBLE_EQ(load_runs({table}).runs.at(0).score("AP"), 55) << "one series need not be named";
  const auto merge = merge_runs_csv(runs_table(table + ":long"), load_runs({folder / "second"}).runs);
  EXPECT_EQ(merge.added, 1u);
  EXPECT_EQ(merge.rows, 2u);
  EXPECT_CONTAINS(error_of([&] { load_runs({table}); }), "several series (long, short); name one");
  EXPECT_DOUBLE_EQ(load_runs({table + ":short"}).runs.at(0).score("AP"), 55);
  const auto second = load_runs({table + ":long", table + ":long"}).runs;
  ASSERT_EQ(second.size(), 1u) << "named twice, counted once";
  EXPECT_DOUBLE_EQ(second[0].score("AP"), 20);
  EXPECT_TRUE(second[0].from_table());
  EXPECT_EQ(second[0].label, "asr");
  const auto both = load_runs({table + ":long", table + ":short"}).runs;
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].label, "asr@" + table + ":long");
  EXPECT_CONTAINS(error_of([&] { load_runs({table + ":shrt"}); }), "has no series 'shrt'; did you mean 'short'?");
  EXPECT_CONTAINS(error_of([&] { load_runs({table + ":a b"}); }), "a series is named in letters");
}

}  // namespace
}  // namespace asr
