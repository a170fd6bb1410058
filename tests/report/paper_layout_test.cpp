// The paper's tables in our measurement: its rows and numbers, ours beside them.
#include "report/paper_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "tests/support/files.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

const std::string kNumbers = ASR_SOURCE_DIR "/assets/paper-tables.csv";

const PaperNumber& number(const std::vector<PaperNumber>& list, const std::string& method, const std::string& backbone,
                          const std::string& benchmark, const std::string& metric) {
  const auto place = std::find_if(list.begin(), list.end(), [&](const PaperNumber& n) {
    return n.method == method && n.backbone == backbone && n.benchmark == benchmark && n.metric == metric;
  });
  EXPECT_NE(place, list.end()) << method << " " << benchmark << " " << metric;
  return *place;
}

TEST(PaperNumbers, AreThoseOfItsTables) {
  const auto vqa = read_paper_numbers(kNumbers, PaperTable::vqa), cit = read_paper_numbers(kNumbers, PaperTable::cit);
  EXPECT_EQ(vqa.size(), 13u * 8);  // eleven methods, one of them on three backbones
  EXPECT_EQ(cit.size(), 13u * 4);
  EXPECT_EQ(number(vqa, "vanilla", "LLaVA-1.5-7B", "VQA v2", "AP").value, 44.1);
  EXPECT_EQ(number(vqa, "cl-moe", "LLaVA-7B", "VQACL", "AF_novel").value, 6.0);
  EXPECT_EQ(number(vqa, "asr", "InternVL3-8B", "CLT-VQA", "AF").value, 5.3);
  EXPECT_EQ(number(vqa, "asr", "LLaVA-1.5-7B", "VQA v2", "AF").value, 2.4);
  EXPECT_EQ(number(cit, "sefe", "LLaVA-1.5-7B", "CoIN", "Avg").value, 56.2);
  EXPECT_EQ(number(cit, "joint", "LLaVA-1.5-7B", "UCIT", "Last").value, 56.2);
  EXPECT_EQ(number(cit, "adapt-inf", "LLaVA-1.5-7B", "UCIT", "Avg").value, 50.2);
}

TEST(PaperNumbers, ABadLineIsNamed) {
  TemporaryFolder folder;
  const std::string head = "table,method,name,backbone,venue,benchmark,metric,value,same_as\n";
  const auto refusal = [&](const std::string& text) {
    write_text(folder / "t.csv", text);
    try {
      read_paper_numbers(folder / "t.csv", PaperTable::vqa);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_CONTAINS(refusal("a,b\n"), "the first line must be");
  EXPECT_CONTAINS(refusal(head + "tab:vqa_results,ewc\n"), "t.csv:2: has 2 fields");
  EXPECT_CONTAINS(refusal(head + "tab:vqa_results,ewc,EWC,L,,VQA v2,AP,x,\n"), "t.csv:2: 'x' is not a number");
  EXPECT_CONTAINS(refusal(head), "has no number of table tab:vqa_results");
}

class PaperLayouts : public testing::Test {
 protected:
  void SetUp() override {
    for (int64_t seed = 0; seed < 3; ++seed)
      for (const std::string label : {"ewc", "own", "vanilla"}) {
        FabricatedRun run;
        run.label = label;
        run.method = "ewc";
        run.seed = seed;
        run.step_ms = label == "vanilla" ? 10 : 12.5;
        run.rows.back().back() += static_cast<double>(seed);  // AP 55, 55 1/3, 55 2/3
        if (label == "ewc") run.novel = {{30}, {20, 40}, {25, 30, 50}};
        write_run(folder.path(), run);
      }
    runs = load_runs({folder.path()});
  }
  Comparison compared(PaperTable table) {
    CompareOptions options;
    options.metrics = metrics_of(table);
    return compare_runs(runs, options);
  }
  static size_t row_of(const Grid& grid, const std::string& title) {
    for (size_t i = 0; i < grid.rows.size(); ++i)
      if (grid.rows[i][0].value == title) return i;
    ADD_FAILURE() << "no row " << title;
    return 0;
  }
  static size_t column_of(const Grid& grid, const std::string& title) {
    const auto place = std::find(grid.header.begin(), grid.header.end(), title);
    EXPECT_NE(place, grid.header.end()) << title;
    return static_cast<size_t>(place - grid.header.begin());
  }

  TemporaryFolder folder;
  RunSet runs;
};

TEST_F(PaperLayouts, OursStandBesideThePapers) {
  const auto comparison = compared(PaperTable::vqa);
  const auto numbers = read_paper_numbers(kNumbers, PaperTable::vqa);
  const auto grids = paper_grids(comparison, numbers, PaperTable::vqa);
  ASSERT_EQ(grids.size(), 2u);
  const auto& scores = grids[0];
  const auto setting = table_title(comparison.tables.at(0));
  const auto ewc = row_of(scores, "EWC"), own = row_of(scores, "own"), quad = row_of(scores, "QUAD");
  const auto ap = column_of(scores, setting + ": AP"), paper = column_of(scores, "paper: VQA v2 AP");
  EXPECT_EQ(scores.rows[ewc][ap].value, "55.33±0.33");
  EXPECT_FALSE(scores.rows[ewc][ap].detail.empty());  // the interval over seeds
  EXPECT_EQ(scores.rows[ewc][paper].value, "45.0");
  EXPECT_EQ(scores.rows[ewc][column_of(scores, setting + ": AP_novel")].value, "35.00±0.00");
  EXPECT_EQ(scores.rows[own][paper].value, "-");  // not a row of the paper's
  EXPECT_EQ(scores.rows[quad][ap].value, "-");    // not measured
  EXPECT_EQ(scores.rows[quad][paper].value, "50.3");
  EXPECT_EQ(scores.rows[row_of(scores, "ASR, Qwen2.5-VL-7B")][paper].value, "54.2");
  EXPECT_LT(ewc, quad);  // its order
  EXPECT_LT(quad, own);
  // Costs of what was run alone.
  const auto& costs = grids[1];
  EXPECT_NE(costs.rows[row_of(costs, "EWC")][column_of(costs, setting + ": trained")].value, "-");
  EXPECT_EQ(costs.rows[row_of(costs, "EWC")][column_of(costs, setting + ": times vanilla")].value, "1.25");
  EXPECT_TRUE(
      std::none_of(costs.rows.begin(), costs.rows.end(), [](const auto& row) { return row[0].value == "QUAD"; }));
  for (const char* format : {"text", "markdown", "latex"}) {
    const auto text = paper_text(grids, paper_notes(comparison, PaperTable::vqa), format);
    EXPECT_CONTAINS(text, "paper: VQACL AP");
    EXPECT_CONTAINS(text, "the paper's own numbers");
  }
}

// LoRA-FT has no run of its own here; once it has one, that counts.
TEST_F(PaperLayouts, RunsOfTheSameMethodStandIn) {
  const auto numbers = read_paper_numbers(kNumbers, PaperTable::cit);
  const auto comparison = compared(PaperTable::cit);
  const auto scores = paper_grids(comparison, numbers, PaperTable::cit)[0];
  const auto last = column_of(scores, table_title(comparison.tables.at(0)) + ": Last");
  const auto plain = scores.rows[row_of(scores, "vanilla")][last].value;
  EXPECT_EQ(scores.rows[row_of(scores, "LoRA-FT (as vanilla)")][last].value, plain);
  FabricatedRun run;
  run.label = "lora-ft";
  run.rows.back().back() += 30;
  write_run(folder.path(), run);
  runs = load_runs({folder.path()});
  const auto with_own = paper_grids(compared(PaperTable::cit), numbers, PaperTable::cit)[0];
  EXPECT_NE(with_own.rows[row_of(with_own, "LoRA-FT")][last].value, plain);
}

TEST_F(PaperLayouts, TheOtherTableHasLastAndAvg) {
  const auto comparison = compared(PaperTable::cit);
  const auto entries = paper_entries(comparison, read_paper_numbers(kNumbers, PaperTable::cit));
  const auto csv = paper_csv(entries);
  const auto setting = table_title(comparison.tables.at(0));
  EXPECT_CONTAINS(csv, "own,\"" + setting + "\",Last,measured,3,55.3333,");
  EXPECT_CONTAINS(csv, "own,\"" + setting + "\",step_ms,measured,3,");
  EXPECT_CONTAINS(csv, "sefe,\"CoIN, LLaVA-1.5-7B\",Last,paper,0,58.4,,");
  EXPECT_EQ(csv.find(",AP,"), std::string::npos);
}

}  // namespace
}  // namespace asr
