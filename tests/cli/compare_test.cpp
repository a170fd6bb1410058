// asr compare and asr report as a user calls them.
#include "tests/support/program.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

class CompareCommand : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* label : {"vanilla", "asr"}) {
      FabricatedRun run;
      run.label = run.method = label;
      write_run(folder.path(), run);
    }
  }
  TemporaryFolder folder;
};

TEST_F(CompareCommand, PrintsAndWrites) {
  auto outcome = run_program({"compare", folder.path()});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_CONTAINS(outcome.out, "difference to vanilla");
  EXPECT_CONTAINS(read_text(folder / "compare.md"), "| vanilla | 1 | 55.00 |");
  EXPECT_CONTAINS(read_text(folder / "compare.csv"), "world-10,tiny-S,asr,1,AP,1,55");
  EXPECT_CONTAINS(run_program({"compare", folder.path(), "--format", "latex"}).out, "\\toprule");
  EXPECT_CONTAINS(run_program({"compare", folder.path(), "--format", "markdown", "--metric", "AF"}).out,
                  "| label | n | AF |");
  outcome = run_program({"compare", folder.path(), "--json", "--against", "asr"});
  EXPECT_EQ(outcome.json()["tables"][0]["against"], "asr");
}

TEST_F(CompareCommand, ThePapersTablesAreALayout) {
  const auto markdown = run_program({"compare", folder.path(), "--layout", "paper-vqa", "--format", "markdown"}).out;
  EXPECT_CONTAINS(markdown, "| Vanilla | 55.00 |");
  EXPECT_CONTAINS(markdown, "tab:vqa\\_results");
  EXPECT_FALSE(std::filesystem::exists(folder / "compare.md"));
  const auto numbers = run_program({"compare", folder.path(), "--layout", "paper-cit", "--json"}).json()["numbers"];
  EXPECT_GT(numbers.size(), 52u);
  expect_refused({"compare", folder.path(), "--layout", "paper-vq"}, "did you mean");
  // Points of a search stand in the same file as the rows that are reported.
  const auto table = std::string(ASR_SOURCE_DIR) + "/results/world-10.csv:methods";
  const auto both = run_program({"compare", table, "--layout", "paper-vqa", "--format", "markdown"}).out;
  EXPECT_CONTAINS(both, "split test");
  EXPECT_EQ(both.find("split tune"), std::string::npos);
  expect_refused({"compare", folder.path(), "--layout", "paper-vqa", "--metric", "AP"}, "leave --metric out");
}

TEST_F(CompareCommand, AMethodFolderIsOnlyPrinted) {
  EXPECT_EQ(run_program({"compare", folder / "asr"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "compare.md"));
  EXPECT_FALSE(std::filesystem::exists(folder / "asr/compare.md"));
}

TEST_F(CompareCommand, ATableOfRunsIsWrittenAndReadLikeFolders) {
  const std::string table = folder / "runs.csv";
  const auto from_folders = run_program({"compare", folder / "asr", folder / "vanilla", "--csv", table});
  EXPECT_EQ(from_folders.status, 0) << from_folders.error;
  EXPECT_CONTAINS(from_folders.error, "runs.csv, 2 runs (2 new, 0 replaced)");
  const auto from_table = run_program({"compare", table, "--json"});
  EXPECT_EQ(from_table.status, 0) << from_table.error;
  EXPECT_EQ(from_table.json()["tables"][0]["groups"][1]["scores"]["AP"]["mean"], 55);
  EXPECT_CONTAINS(run_program({"compare", folder.path(), "--csv", table}).error, "0 new, 2 replaced");
  EXPECT_EQ(run_program({"report", table, "-o", folder / "table.html"}).status, 0);
  write_text(table, read_text(table) + "world-10\n");
  expect_refused({"compare", table}, "runs.csv:4: has 1 fields");
  expect_refused({"compare", folder.path(), "--csv", table}, "runs.csv:4: has 1 fields");
}

TEST_F(CompareCommand, ReportGoesBesideTheRunsOrWhereAsked) {
  auto outcome = run_program({"report", folder.path()});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_CONTAINS(outcome.out, "2 runs -> ");
  EXPECT_CONTAINS(read_text(folder / "report.html"), "</html>");
  outcome = run_program({"report", folder / "asr", "-o", folder / "one.html", "--json"});
  EXPECT_EQ(outcome.json()["runs"], 1);
  EXPECT_CONTAINS(read_text(folder / "one.html"), "</html>");
}

TEST_F(CompareCommand, BadInputIsOneLine) {
  expect_refused({"compare"}, "required");
  expect_refused({"compare", folder / "none"}, "no such folder");
  expect_refused({"compare", folder / "asr/stages/01"}, "holds no runs");
  expect_refused({"compare", folder.path(), "--against", "vanila"}, "did you mean 'vanilla'?");
  expect_refused({"compare", folder.path(), "--metric", "AP,XX"}, "'XX' is not a score");
  expect_refused({"compare", folder.path(), "--format", "pdf"}, "--format");
  expect_refused({"report", folder / "asr"}, "-o FILE.html");
  expect_refused({"report", folder.path(), "-o", folder / "no/such/place.html"}, "does not exist");
  write_text(folder / "asr/log.jsonl", "{\n");
  expect_refused({"report", folder.path()}, "log.jsonl:1");
  write_text(folder / "asr/metrics.json", "{\n\n]");
  expect_refused({"compare", folder.path()}, "metrics.json:3");
}

}  // namespace
}  // namespace asr
