// Novel compositions in the tables: means over held-out groups and benchmarks, and what is said of those that miss
// some.
#include "report/novel_means.h"

#include <cmath>

#include "report/compare.h"
#include "report/page.h"
#include "report/tables.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

class NovelCompositions : public testing::Test {
 protected:
  // A run that held `group` out and scores `novel` on its second and third task; with "" a standard run.
  void add(const std::string& label, const std::string& stream, const std::string& group, double novel,
           int64_t seed = 0) {
    FabricatedRun run;
    run.label = run.method = label;
    run.stream = stream;
    run.held_out = group;
    run.seed = seed;
    run.log = run.analysis = run.predictions = false;
    if (stream == "vqacl:nextqa") run.tasks = {"CW", "TN", "TC"};
    if (!group.empty()) {
      run.novel = {{NAN}, {NAN, novel + 10}, {NAN, novel, novel}};
      for (auto& row : run.rows) row.assign(row.size(), 1);  // what such a run scores elsewhere is no standard score
    }
    const auto root = folder / (stream.substr(6) + group);
    std::filesystem::create_directories(root);
    write_run(root, run);
    if (roots.empty() || roots.back() != root) roots.push_back(root);
  }
  Comparison compare(const CompareOptions& options = {}) {
    set = load_runs(roots);
    return compare_runs(set, options);
  }
  static const ComparisonTable& table_named(const Comparison& comparison, const std::string& title) {
    for (const auto& table : comparison.tables)
      if (table_title(table) == title) return table;
    ADD_FAILURE() << "no table " << title;
    return comparison.tables.at(0);
  }
  static double mean_of_label(const Comparison& comparison, const ComparisonTable& table, const std::string& label,
                              const std::string& metric) {
    const auto place = std::find(comparison.metrics.begin(), comparison.metrics.end(), metric);
    for (const auto& group : table.groups)
      if (group.label == label) return group.scores.at(static_cast<size_t>(place - comparison.metrics.begin())).mean;
    ADD_FAILURE() << "no row " << label;
    return 0;
  }
  TemporaryFolder folder;
  std::vector<std::string> roots;
  RunSet set;
};

TEST_F(NovelCompositions, MeansOverGroupsAndBenchmarks) {
  for (const char* label : {"vanilla", "asr"}) {
    const double better = std::string(label) == "asr" ? 6 : 0;
    add(label, "vqacl:vqav2", "", 0);
    add(label, "vqacl:nextqa", "", 0);
    for (int g = 1; g <= 5; ++g) add(label, "vqacl:vqav2", "G" + std::to_string(g), 10.0 * g + better);
    for (int g = 0; g < 5; ++g) add(label, "vqacl:nextqa", "G" + std::to_string(g), 50.0 + g + better);
  }
  const auto comparison = compare();
  EXPECT_EQ(comparison.metrics.back(), "AF_novel");
  const auto& group = table_named(comparison, "vqacl:vqav2, G3 held out, tiny-S");
  EXPECT_DOUBLE_EQ(mean_of_label(comparison, group, "vanilla", "AP_novel"), 30);
  EXPECT_DOUBLE_EQ(mean_of_label(comparison, group, "vanilla", "AF_novel"), 10);
  const auto& vqa = table_named(comparison, "vqacl:vqav2, mean over G1, G2, G3, G4, G5 held out, tiny-S");
  EXPECT_DOUBLE_EQ(mean_of_label(comparison, vqa, "vanilla", "AP_novel"), 30);
  EXPECT_DOUBLE_EQ(mean_of_label(comparison, vqa, "asr", "AP_novel"), 36);
  EXPECT_DOUBLE_EQ(mean_of_label(comparison, vqa, "asr", "AP"), 55) << "that of the standard run";
  ASSERT_EQ(vqa.differences.size(), 1u);
  EXPECT_DOUBLE_EQ(vqa.differences[0].mean.at(5), 6);
  const auto& both = table_named(comparison, "vqacl, unweighted mean of vqacl:nextqa, vqacl:vqav2, tiny-S");
  EXPECT_DOUBLE_EQ(mean_of_label(comparison, both, "vanilla", "AP_novel"), (30 + 52) / 2.0);
  EXPECT_DOUBLE_EQ(mean_of_label(comparison, both, "vanilla", "AF_novel"), 10);
  EXPECT_DOUBLE_EQ(mean_of_label(comparison, both, "vanilla", "AP"), 55);
  EXPECT_EQ(comparison.tables.size(), 2 * 6 + 2 + 1u);
  for (const auto& text : {text_tables(comparison), markdown_tables(comparison), latex_tables(comparison)}) {
    EXPECT_CONTAINS(text, "unweighted mean of vqacl:nextqa, vqacl:vqav2");
    EXPECT_CONTAINS(text, "41.00");
  }
  EXPECT_CONTAINS(csv_table(comparison), "vqacl,tiny-S,vanilla,1,AP_novel,1,41,,,,,,,,,,,\"unweighted mean of ");
  EXPECT_CONTAINS(csv_table(comparison), "vqacl:vqav2,tiny-S,vanilla,1,AP_novel,1,30,,,,,,,,,,,G3,val,generate,");
  const auto page = report_page(set, comparison, "test");
  EXPECT_CONTAINS(page, "asr, novel compositions</figcaption>");
  EXPECT_CONTAINS(page, "<h2>vqacl, unweighted mean of");
  EXPECT_EQ(comparison_json(comparison)["tables"].back()["means"], true);
}

TEST_F(NovelCompositions, AMeanOverFewerGroupsSaysSoAndIsNotCompared) {
  for (const char* group : {"G1", "G2"}) add("vanilla", "vqacl:vqav2", group, 40);
  add("asr", "vqacl:vqav2", "G1", 50);
  const auto comparison = compare();
  const auto& table = table_named(comparison, "vqacl:vqav2, mean over G1, G2 held out, tiny-S");
  EXPECT_EQ(table.differences.at(0).pairs, 0);
  const auto text = text_tables(comparison);
  EXPECT_CONTAINS(text, "over G1 alone, of G1, G2");
  EXPECT_CONTAINS(text, "2 of VQACL's five");
  EXPECT_TRUE(std::isnan(mean_of_label(comparison, table, "asr", "AP"))) << "no standard run is there";
}

TEST_F(NovelCompositions, AStreamThatHoldsAnotherGroupOutInEveryTaskNeedsOneRun) {
  FabricatedRun run;
  run.stream = "world-sc";
  run.novel = {{70}, {60, NAN}, {50, NAN, 20}};
  write_run(folder.path(), run);
  set = load_runs({folder.path()});
  EXPECT_DOUBLE_EQ(set.runs[0].score("AP_novel"), 35);
  EXPECT_DOUBLE_EQ(set.runs[0].score("AF_novel"), 20);
  const auto comparison = compare_runs(set, {});
  ASSERT_EQ(comparison.tables.size(), 1u);
  EXPECT_CONTAINS(markdown_tables(comparison), "| label | n | AP | AF | Avg | BWT | MFT | AP\\_novel | AF\\_novel |");
  CompareOptions options;
  options.metrics = parse_metric_list("AF_novel,AF_novel_vqacl");
  EXPECT_DOUBLE_EQ(compare_runs(set, options).tables[0].groups.back().scores[0].mean, 20);
}

TEST_F(NovelCompositions, AMatrixOfOtherTasksIsRefused) {
  FabricatedRun run;
  run.novel = {{70}, {60, 50}, {50, 40, 20}};
  const auto place = write_run(folder.path(), run);
  write_text(place + "/matrix_novel.csv", "stage,a,b,c\n1,1,,\n2,1,1,\n3,1,1,1\n");
  EXPECT_CONTAINS(error_of([&] { load_runs({folder.path()}); }), "matrix_novel.csv: names other tasks");
}

class Tables : public NovelCompositions {};

TEST_F(Tables, UnfinishedRunsHaveRowsOfTheirOwnAndNoDifference) {
  FabricatedRun run;
  run.log = run.analysis = false;
  run.label = run.method = "vanilla";
  write_run(folder.path(), run);
  run.label = run.method = "asr";
  run.complete = false;
  run.rows = {{90}, {90, 90}};
  write_run(folder.path(), run);
  set = load_runs({folder.path()});
  const auto comparison = compare_runs(set, {});
  EXPECT_TRUE(comparison.tables[0].differences.empty());
  const auto text = text_tables(comparison);
  EXPECT_CONTAINS(text, "asr (2 of 3 stages)");
  EXPECT_CONTAINS(text, "not complete, 2 of 3 stages");
  EXPECT_CONTAINS(report_page(set, comparison, "test"), "asr (2 of 3 stages)");
}

TEST_F(Tables, LabelsCannotBreakATableOrSteerATerminalOrASpreadsheet) {
  FabricatedRun run;
  run.log = run.analysis = false;
  run.label =
      "=cmd|'calc'\n\x1b[2J\xc2\x9b"
      "31m";
  run.stream = "+a,\"b\"";
  write_run(folder.path(), run);
  set = load_runs({folder.path()});
  const auto comparison = compare_runs(set, {});
  const auto text = text_tables(comparison), markdown = markdown_tables(comparison);
  for (const auto& shown : {text, markdown}) {
    EXPECT_EQ(shown.find('\x1b'), std::string::npos);
    EXPECT_EQ(shown.find("\xc2\x9b"), std::string::npos);
    EXPECT_CONTAINS(shown, "\\x0a");
  }
  EXPECT_CONTAINS(markdown, "=cmd\\|");
  EXPECT_CONTAINS(csv_table(comparison), "\"'+a,\"\"b\"\"\",tiny-S,\"'=cmd|");
}

}  // namespace
}  // namespace asr
