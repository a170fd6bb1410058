// Options that would lose a run or train nothing are refused or warned of before anything is written.
#include <filesystem>

#include "tests/train/run_support.h"

namespace asr {
namespace {

TEST(RefusedOptions, LabelsThatAreFilesOfTheOutputFolder) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto message = [&](const std::string& key, const std::string& value) {
    auto list = small_run(folder / "model", folder / "new", "vanilla");
    list.push_back({key, value, "--set"});
    return message_of([&] { run_small(list); });
  };
  for (const char* file :
       {"config.yaml", "fingerprint.json", "compare.md", "compare.csv", "report.html", "tune.csv", "tuned.yaml"})
    EXPECT_CONTAINS(message("label", file), "is the name of a file of output_dir");
  EXPECT_CONTAINS(message("label", "config.yaml.tmp-17"), "while it is written");  // cleared away by the next process
  for (const char* name : {".", "..", ".hidden", "a/b"})
    EXPECT_CONTAINS(message("label", name), "cannot be the name of a folder");
  EXPECT_CONTAINS(message("label", "a\nb"), "control character");
  EXPECT_CONTAINS(message("label", std::string(121, 'x')), "use at most 120");
  EXPECT_CONTAINS(message("lora_alpha", "0"), "lora_alpha=0");
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST(BatchWarning, NamesTheSmallestTask) {
  StreamOptions options;
  options.train = 24;
  options.val = 4;
  options.tasks = 3;
  const auto stream = make_stream(options);
  RunOptions run;
  run.batch = 24;
  EXPECT_EQ(batch_warning(run, *stream), "");
  run.accumulation = 2;
  const auto text = batch_warning(run, *stream);
  EXPECT_CONTAINS(text, "a step takes 48 samples");
  EXPECT_CONTAINS(text, "has 24, and 2 more have too few");
  run.method = {"joint"};  // the union holds enough
  EXPECT_EQ(batch_warning(run, *stream), "");
}

TEST(LoggedProgress, OfReplayEndsAtAHundredPercent) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto run = run_small(small_run(folder / "model", folder / "out", "er"))[0];
  std::istringstream lines(read_text(run + "/log.jsonl"));
  nlohmann::json last;
  for (std::string text; std::getline(lines, text);)
    if (auto line = nlohmann::json::parse(text); line.contains("percentage")) last = line;
  EXPECT_DOUBLE_EQ(last["percentage"].get<double>(), 100);
  EXPECT_EQ(last["current_steps"], last["total_steps"]);
}

}  // namespace
}  // namespace asr
