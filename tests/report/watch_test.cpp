// The page while runs train, runs that cannot be read beside others, and what a terminal shows.
#include "report/page.h"
#include "report/progress_page.h"
#include "report/terminal.h"
#include "tests/support/run_folder.h"

namespace asr {
namespace {

FabricatedRun watched_run(const std::string& label) {
  FabricatedRun run;
  run.label = label;
  run.method = label;
  run.predictions = run.analysis = false;
  return run;
}

TEST(Watch, ProgressComesFromTheLog) {
  TemporaryFolder folder;
  auto run = watched_run("asr");
  run.complete = false;
  run.rows = {{50}, {40, 60}};
  const auto path = write_run(folder.path(), run);
  write_text(
      path + "/log.jsonl",
      "{\"loss\":1,\"current_steps\":5,\"stage\":1,\"percentage\":10,\"remaining_time\":90}\n"
      "{\"loss\":1,\"current_steps\":20,\"stage\":3,\"percentage\":42.5,\"remaining_time\":61}\n{\"loss\":1,\"cur");
  write_run(folder.path(), watched_run("vanilla"));
  const auto progress = read_progress({folder.path()});
  ASSERT_EQ(progress.size(), 2u);
  EXPECT_DOUBLE_EQ(progress[0].percent, 42.5);
  EXPECT_DOUBLE_EQ(progress[0].seconds_left, 61);
  EXPECT_EQ(progress[0].stage, 3);
  EXPECT_FALSE(progress[0].complete);
  EXPECT_TRUE(progress[1].complete);
  const auto page = watched_page({folder.path()}, "test", 7);
  EXPECT_CONTAINS(page, "content=\"7\"");
  EXPECT_CONTAINS(page, "stage 3, 42 %, 1m 01s left");
  EXPECT_CONTAINS(page, "asr (2 of 3 stages)");
}

TEST(Watch, ACompleteFolderHasTheOrdinaryPage) {
  TemporaryFolder folder;
  write_run(folder.path(), watched_run("asr"));
  const auto page = watched_page({folder.path()}, "test", 7);
  EXPECT_EQ(page.find("http-equiv"), std::string::npos);
  EXPECT_EQ(page.find("id=\"progress\""), std::string::npos);
}

TEST(Watch, BeforeAnyStageThereIsProgressAlone) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "asr");
  write_text(folder / "asr/log.jsonl", "{\"loss\":1,\"current_steps\":5,\"stage\":1,\"percentage\":3}\n");
  const auto page = watched_page({folder.path()}, "test", 10);
  EXPECT_CONTAINS(page, "stage 1, 3 %");
  EXPECT_CONTAINS(page, "no run has finished a stage");
  EXPECT_CONTAINS(page, "</html>");
}

TEST(DamagedRuns, AreNamedAndTheRestIsShown) {
  TemporaryFolder folder;
  write_run(folder.path(), watched_run("asr"));
  write_run(folder.path(), watched_run("vanilla"));
  write_text(write_run(folder.path(), watched_run("ewc")) + "/metrics.json", "{\"label\": ");
  auto other = watched_run("lwf");
  other.tasks = {"count", "color", "other"};
  write_run(folder.path(), other);
  write_run(folder.path(), watched_run("copy"));
  std::filesystem::copy(folder / "copy", folder / "copy-of-it", std::filesystem::copy_options::recursive);
  EXPECT_THROW(load_runs({folder.path()}), Error);
  const auto set = load_runs({folder.path()}, Damaged::is_skipped);
  CompareOptions options;
  EXPECT_THROW(compare_runs(set, options), Error);
  options.skip_mixed = true;
  const auto comparison = compare_runs(set, options);
  ASSERT_EQ(comparison.tables.size(), 1u);
  EXPECT_EQ(comparison.tables[0].groups.size(), 4u);  // zero-shot, vanilla, asr, copy
  const auto page = report_page(set, comparison, "test");
  EXPECT_CONTAINS(page, "ewc: cannot be read");
  EXPECT_CONTAINS(page, "lwf: runs on world-10 differ in their tasks");
  EXPECT_CONTAINS(page, "copy-of-it: another folder beside it is copy, seed 0, order 0 too");
  EXPECT_CONTAINS(page, "4 remarks on these runs");
}

TEST(DamagedRuns, OddNamesAreEscapedAndCut) {
  TemporaryFolder folder;
  auto run = watched_run("asr");
  run.tasks = {"<script>alert(1)</script>", "a&b", std::string(120, 'w')};
  run.label = "x<img src=y onerror=z>\x1b[31m" + std::string(180, 'l');
  run.log = false;
  const auto path = folder / "odd";
  auto plain = run;
  plain.label = "odd";
  write_run(folder.path(), plain);
  auto metrics = nlohmann::json::parse(read_text(path + "/metrics.json"));
  metrics["label"] = run.label;
  write_text(path + "/metrics.json", metrics.dump());
  const auto set = load_runs({folder.path()}, Damaged::is_skipped);
  const auto comparison = compare_runs(set, {});
  const auto page = report_page(set, comparison, "test");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img src=y"), std::string::npos);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_CONTAINS(page, std::string(120, 'w'));  // whole where one points
  EXPECT_CONTAINS(page, std::string(14, 'w') + "…");
  const auto pictures = terminal_pictures(comparison);
  EXPECT_EQ(pictures.find("\x1b[31m"), std::string::npos) << "a name must not steer the terminal";
}

TEST(Terminal, BarsAndMatrices) {
  TemporaryFolder folder;
  write_run(folder.path(), watched_run("asr"));
  write_run(folder.path(), watched_run("vanilla"));
  const auto set = load_runs({folder.path()});
  const auto text = terminal_pictures(compare_runs(set, {}));
  std::string sixteen;
  for (int i = 0; i < 16; ++i) sixteen += "█";
  EXPECT_CONTAINS(text,
                  "asr                  \x1b[36m" + sixteen + "▌\x1b[0m 55.0\n");  // 55 % of 30 cells: 16 and a half
  EXPECT_CONTAINS(text, "m  70.0\x1b[0m");
  EXPECT_CONTAINS(text, std::string(14, ' ') + " count  color  read  \n");
}

}  // namespace
}  // namespace asr
