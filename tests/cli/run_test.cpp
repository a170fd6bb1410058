// asr run, demo and audit as a user meets them: killed at any moment, on a full disk, with a typo.
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>

#include <filesystem>
#include <thread>

#include "base/random.h"
#include "tests/support/program.h"
#include "tests/train/run_support.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

std::string yaml_of(const std::vector<Assignment>& assignments) {
  std::string out;
  for (const auto& a : assignments) out += a.key + ": " + a.value + "\n";
  return out;
}

// Starts the program, kills it hard after `milliseconds`, and says whether it had ended by itself before.
bool killed_run(const std::vector<std::string>& arguments, int milliseconds) {
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    dup2(null, 2);
    std::vector<char*> list = {const_cast<char*>(ASR_PROGRAM)};
    for (const auto& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
    list.push_back(nullptr);
    execv(ASR_PROGRAM, list.data());
    _exit(127);
  }
  for (int waited = 0; waited < milliseconds; waited += 10) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return false;
}

TEST(RunCommand, KilledAtTenRandomMomentsItEndsInTheSameBits) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  for (const char* name : {"straight", "killed"}) {
    auto options = small_run(folder / "model", folder / name, "asr+er");
    for (auto& o : options)
      if (o.key == "save_steps") o.value = "1";
    write_text(folder / (std::string(name) + ".yaml"), yaml_of(options));
  }
  const auto straight = run_program({"run", folder / "straight.yaml", "--threads", "1"});
  ASSERT_EQ(straight.status, 0) << straight.error;
  Random random({static_cast<uint64_t>(getpid())});  // other moments in every run of the test
  int kills = 0;
  std::string moments;
  for (int attempt = 0; kills < 10 && attempt < 60; ++attempt) {
    // Starting takes about half a second; what follows is training, evaluating and saving.
    const int moment = 400 + random.between(0, 900);
    moments += cat(" ", moment);
    if (killed_run({"run", folder / "killed.yaml", "--threads", "1", "--resume"}, moment)) {
      if (kills < 10) fs::remove_all(folder / "killed");  // it got through between two kills: from the start again
      continue;
    }
    ++kills;
  }
  EXPECT_EQ(kills, 10);
  SCOPED_TRACE("killed after these milliseconds:" + moments);
  const auto last = run_program({"run", folder / "killed.yaml", "--threads", "1", "--resume"});
  ASSERT_EQ(last.status, 0) << last.error;
  expect_same_run((folder / "straight") + "/asr+er", (folder / "killed") + "/asr+er");
  // The log has no line twice and none missing, whatever the moments.
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  EXPECT_EQ(lines(read_text((folder / "straight") + "/asr+er/log.jsonl")),
            lines(read_text((folder / "killed") + "/asr+er/log.jsonl")));
}

TEST(RunCommand, TwoProcessesNeverWriteTheSameRun) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_text(folder / "c.yaml", yaml_of(small_run(folder / "model", folder / "out", "vanilla")));
  ASSERT_EQ(run_program({"run", folder / "c.yaml"}).status, 0);  // the outer folder is shared by all methods
  fs::create_directory(folder / "out/ewc");
  const int other = open((folder / "out/ewc").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  const std::vector<std::string> arguments = {"run", folder / "c.yaml", "--resume", "--set", "method=ewc"};
  expect_refused(arguments, "another process is at work here");
  EXPECT_TRUE(fs::is_empty(folder / "out/ewc"));
  close(other);
  EXPECT_EQ(run_program(arguments).status, 0);
}

TEST(RunCommand, CtrlCSavesAndSaysHowToGoOn) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  auto options = small_run(folder / "model", folder / "out", "vanilla");
  options.push_back({"num_train_epochs", "2000", "test"});
  write_text(folder / "c.yaml", yaml_of(options));
  const pid_t child = fork();
  if (child == 0) {
    dup2(open((folder / "error").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    dup2(open("/dev/null", O_WRONLY), 1);
    execl(ASR_PROGRAM, ASR_PROGRAM, "run", (folder / "c.yaml").c_str(), "--threads", "1", nullptr);
    _exit(127);
  }
  const std::string log = (folder / "out") + "/vanilla/log.jsonl";  // its first line: training has begun
  for (int tenths = 0; tenths < 600 && (!fs::exists(log) || fs::file_size(log) == 0); ++tenths)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_CONTAINS(read_text(folder / "error"), "asr: Ctrl-C; saving");
  EXPECT_CONTAINS(read_text(folder / "error"), "go on with --resume");
  EXPECT_FALSE(fs::is_empty((folder / "out") + "/vanilla/checkpoints"));
}

TEST(RunCommand, AFullDiskIsOneLineAndLosesNothing) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  fs::create_directory(folder / "disk");
  if (mount("tmpfs", (folder / "disk").c_str(), "tmpfs", 0, "size=160k") != 0)
    GTEST_SKIP() << "no permission to mount a small disk here";
  auto options = small_run(folder / "model", folder / "disk/out", "er");
  write_text(folder / "c.yaml", yaml_of(options));
  const auto full = run_program({"run", folder / "c.yaml", "--threads", "1"});
  const bool whole = fs::exists(folder / "disk/out/er/checkpoints");
  std::string unfinished;
  if (whole)
    for (const auto& entry : fs::directory_iterator(folder / "disk/out/er/checkpoints"))
      if (entry.path().filename().string().find("unfinished") == 0) unfinished = entry.path().string();
  umount((folder / "disk").c_str());
  EXPECT_EQ(full.status, 1) << full.error;
  EXPECT_CONTAINS(full.error, "No space left");
  EXPECT_EQ(unfinished, "");
}

TEST(RunCommand, BadInputIsOneClearLine) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  write_text(folder / "c.yaml", yaml_of(small_run(folder / "model", folder / "out", "vanilla")));
  expect_refused({"run"}, "CONFIG");
  expect_refused({"run", folder / "none.yaml"}, "none.yaml");
  write_text(folder / "bad.yaml", "method: [asr\n");
  expect_refused({"run", folder / "bad.yaml"}, "not valid YAML");
  write_text(folder / "typo.yaml", "learning_rte: 1\n");
  expect_refused({"run", folder / "typo.yaml"}, "did you mean 'learning_rate'");
  expect_refused({"run", folder / "c.yaml", "--set", "method=vanila"}, "did you mean 'vanilla'");
  expect_refused({"run", folder / "c.yaml", "--set", "output_dir="}, "output_dir is not set");
  expect_refused({"run", folder / "c.yaml", "--set", "model_name_or_path=tiny-XXL"}, "tiny-XXL");
  expect_refused({"run", folder / "c.yaml", "--set", "skills.parser=/nowhere/p"}, "/nowhere/p");
  write_text(folder / "broken", "no model");
  expect_refused({"run", folder / "c.yaml", "--set", cat("model_name_or_path=", folder / "broken")}, "broken");
  expect_refused({"audit", folder / "nothing"}, "is no folder");
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(RunCommand, ListsWhatThereIs) {
  EXPECT_CONTAINS(run_program({"methods"}).out, "attention-spectrum");
  EXPECT_EQ(run_program({"streams", "--json"}).json()["streams"].size(), 18u);
  EXPECT_EQ(run_program({"backbones", "--json"}).json()["backbones"].size(), 8u);
}

TEST(RunCommand, DescribesAMethod) {
  const auto text = run_program({"methods", "ewc"}).out;
  EXPECT_CONTAINS(text, "ewc.lambda");
  EXPECT_CONTAINS(text, "weight of the penalty");
  const auto tables = run_program({"methods", "ewc", "--markdown"}).out;
  EXPECT_CONTAINS(tables, "| `ewc.accumulate` | `latest` | latest\\|sum\\|online |");
  EXPECT_CONTAINS(tables, "| `fisher` | `statistics` | parameters | run |");
  const auto two = run_program({"methods", "asr+hide-llava", "--json"}).json()["methods"];
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0]["options"][0]["option"].get<std::string>(), "asr.beta");  // of its section, shared with analyses
  EXPECT_EQ(two[1]["kept"][0]["at_most"].get<std::string>(), "stages, 2 x widest site");
  EXPECT_CONTAINS(run_program({"methods", "lwf"}).out, "keeps a teacher");
  expect_refused({"methods", "ewcc"}, "did you mean");
  expect_refused({"methods", "--markdown"}, "name the method");
}

}  // namespace
}  // namespace asr
