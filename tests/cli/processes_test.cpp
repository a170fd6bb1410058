// asr run --processes: the same run as with one process, and an orderly end whatever happens to one of them.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/folders.h"
#include "tests/support/process_runs.h"

namespace asr {
namespace {

namespace fs = std::filesystem;
class Uneven : public ::testing::TestWithParam<std::pair<int, Settings>> {};
INSTANTIATE_TEST_SUITE_P(
    Batches, Uneven,
    ::testing::Values(
        std::pair<int, Settings>(2, {{"per_device_train_batch_size", "5"},
                                     {"stream.train", "23"},
                                     {"stream.val", "7"},
                                     {"per_device_eval_batch_size", "3"}}),
        std::pair<int, Settings>(3, {{"per_device_train_batch_size", "2"}, {"stream.train", "5"}, {"stream.val", "2"}}),
        std::pair<int, Settings>(2, {{"gradient_accumulation_steps", "2"}, {"per_device_train_batch_size", "3"}}),
        std::pair<int, Settings>(2, {{"gradient_accumulation_steps", "3"}, {"per_device_train_batch_size", "3"}}),
        std::pair<int, Settings>(2, {{"head", "answers"}, {"method", "asr+lwf"}})),
    [](const auto& entry) { return "Case" + std::to_string(entry.index); });

TEST_P(Uneven, NoSampleIsLostOrCountedTwice) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  // Prototypes of a few samples have variances near nothing, and a rounding error would count a thousandfold.
  Settings settings = {{"method", "asr+er"}, {"stream.tasks", "2"}, {"spectral.covariance_floor", "0.01"}};
  for (const auto& setting : GetParam().second) settings.push_back(setting);
  const auto [one, many] = run_both(folder, settings, GetParam().first);
  std::string method;
  for (const auto& [key, value] : settings)
    if (key == "method") method = value;
  expect_close_runs(one + "/" + method, many + "/" + method, 2e-5);
}

// Models that pack their own batches: texts of many lengths, pictures read by the process that needs them.
TEST(Processes, HuggingFaceModelsTrainTogetherToo) {
  for (const char* name : {"llava", "qwen2_5_vl", "internvl", "instructblip"}) {
    TemporaryFolder folder;
    const auto model = std::string(ASR_SOURCE_DIR) + "/tests/fixtures/models/" + name;
    const auto [one, two] = run_both(folder,
                                     {{"model_name_or_path", model},
                                      {"method", "er+lwf"},
                                      {"stream.tasks", "2"},
                                      {"stream.train", "7"},
                                      {"stream.val", "3"},
                                      {"per_device_train_batch_size", "3"},
                                      {"per_device_eval_batch_size", "2"},
                                      {"attention.layers", "1"},
                                      {"attention.grid", "6"},
                                      {"lora_rank", "4"},
                                      {"er.buffer", "3"}},
                                     2);
    // The attention of this random InternVL is so even that its spectra are those of rounding errors.
    expect_close_runs(one + "/er+lwf", two + "/er+lwf", 1e-4, name != std::string("internvl"));
  }
}

bool wait_until(const std::function<bool()>& done, int seconds) {
  for (int i = 0; i < seconds * 50; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream in(cat("/proc/", parent, "/task/", parent, "/children"));
  std::vector<pid_t> out;
  for (pid_t pid; in >> pid;) out.push_back(pid);
  return out;
}

bool alive(pid_t pid) {
  std::ifstream in(cat("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  return !text.empty() && text.find(") Z ") == std::string::npos;
}

int status_of(pid_t child) {
  int status = 0;
  const bool ended = wait_until([&] { return waitpid(child, &status, WNOHANG) == child; }, 120);
  EXPECT_TRUE(ended) << "the command hangs";
  if (!ended) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A long run of two processes that has begun to train.
struct LongRun {
  TemporaryFolder folder;
  std::string config;
  pid_t command = -1;
  std::vector<pid_t> copies;

  explicit LongRun(const std::vector<std::string>& more = {}) {
    write_small_model(folder / "model");
    config =
        write_config(folder, "out", {{"num_train_epochs", "5000"}, {"save_steps", "3"}, {"save_total_limit", "3"}});
    std::vector<std::string> arguments = {"run", config, "--threads", "1", "--processes", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    command = start_program(arguments, folder / "error");
    EXPECT_TRUE(wait_until([&] { return list_folder((folder / "out") + "/vanilla/checkpoints").size() >= 3; }, 120))
        << error();
    copies = children_of(command);
    EXPECT_EQ(copies.size(), 2u);
  }
  std::string error() const { return read_text(folder / "error"); }
  bool none_left() const {
    return wait_until([&] { return !alive(copies[0]) && !alive(copies[1]); }, 20);
  }
};

TEST(Processes, WhenOneDiesAllEndWithOneLine) {
  for (const size_t victim : {0u, 1u}) {
    LongRun run;
    ASSERT_EQ(run.copies.size(), 2u);
    kill(run.copies[victim], SIGKILL);
    EXPECT_EQ(status_of(run.command), 1);
    EXPECT_CONTAINS(run.error(), cat("process ", victim, " of 2 was ended by signal 9"));
    EXPECT_CONTAINS(run.error(), "go on with --resume");
    EXPECT_EQ(run.error().find("cannot reach"), std::string::npos) << run.error();
    EXPECT_TRUE(run.none_left());
  }
}

// It hangs in the sum of gradients, which the others have begun.
TEST(Processes, WhenOneHangsInTrainingAllEndWithinTheTimeout) {
  LongRun run({"--peer-timeout", "3"});
  ASSERT_EQ(run.copies.size(), 2u);
  kill(run.copies[1], SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of(run.command), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_CONTAINS(run.error(), "process 0 of 2 has waited 3 s for another one, which hangs");
  EXPECT_TRUE(run.none_left());
}

TEST(Processes, WhenTheCommandDiesNoneStays) {
  LongRun run;
  ASSERT_EQ(run.copies.size(), 2u);
  kill(run.command, SIGKILL);
  waitpid(run.command, nullptr, 0);
  EXPECT_TRUE(run.none_left());
}

TEST(Processes, ASignalSavesAndStopsAll) {
  for (const int number : {SIGINT, SIGTERM}) {
    LongRun run;
    ASSERT_EQ(run.copies.size(), 2u);
    kill(run.command, number);
    EXPECT_EQ(status_of(run.command), 128 + number);
    EXPECT_CONTAINS(run.error(), "go on with --resume");
    EXPECT_EQ(run.error().find("process "), std::string::npos) << run.error();
    EXPECT_TRUE(run.none_left());
  }
}

TEST(Processes, KilledAndResumedItEndsInTheSameBits) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const Settings settings = {{"method", "asr+er"}, {"save_steps", "1"}};
  const auto straight = write_config(folder, "straight", settings), killed = write_config(folder, "killed", settings);
  const auto whole = run_program({"run", straight, "--threads", "1", "--processes", "2"});
  ASSERT_EQ(whole.status, 0) << whole.error;
  EXPECT_CONTAINS(whole.error, "asr+er: 2 processes summed ");
  for (const auto& line : log_of((folder / "straight") + "/asr+er"))
    EXPECT_EQ(line.contains("grad_norm"), line.contains("communication_time"));
  const auto audit = run_program({"audit", (folder / "straight") + "/asr+er"});
  EXPECT_EQ(audit.status, 0) << audit.out;
  int kills = 0;
  for (size_t wanted : {2u, 5u}) {  // lines of the log: in the first and in the second stage
    const auto child =
        start_program({"run", killed, "--threads", "1", "--processes", "2", "--resume"}, folder / "error");
    const auto log = (folder / "killed") + "/asr+er/log.jsonl";
    const bool there = wait_until(
        [&] {
          const auto text = read_text(log);
          return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) >= wanted;
        },
        120);
    EXPECT_TRUE(there);
    const auto copies = children_of(child);
    if (copies.size() == 2) {
      kill(copies[1], SIGKILL);
      ++kills;
    }
    status_of(child);
  }
  EXPECT_EQ(kills, 2);
  const auto last = run_program({"run", killed, "--threads", "1", "--processes", "2", "--resume"});
  ASSERT_EQ(last.status, 0) << last.error;
  expect_same_run((folder / "straight") + "/asr+er", (folder / "killed") + "/asr+er");
}

TEST(Processes, AnotherNumberOfProcessesMayGoOn) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto whole = run_program({"run", write_config(folder, "one", {{"method", "ewc"}}), "--threads", "1"});
  ASSERT_EQ(whole.status, 0) << whole.error;
  const auto config = write_config(folder, "changed", {{"method", "ewc"}, {"save_steps", "1"}});
  const auto child = start_program({"run", config, "--threads", "1"}, folder / "error");
  wait_until([&] { return log_of((folder / "changed") + "/ewc").size() >= 2; }, 120);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const auto rest = run_program({"run", config, "--threads", "1", "--processes", "2", "--resume"});
  ASSERT_EQ(rest.status, 0) << rest.error;
  expect_close_runs((folder / "one") + "/ewc", (folder / "changed") + "/ewc", 2e-5);
}

uint16_t free_port() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(s, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(s, reinterpret_cast<sockaddr*>(&address), &size);
  close(s);
  return ntohs(address.sin_port);
}

TEST(Processes, AnotherLauncherMayStartThem) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto config = write_config(folder, "out", {{"stream.tasks", "1"}});
  const auto port = std::to_string(free_port());
  std::vector<pid_t> both;
  for (const char* rank : {"0", "1"})
    both.push_back(start_program({"run", config, "--threads", "1"}, folder / (std::string("error") + rank),
                                 {{"RANK", rank},
                                  {"WORLD_SIZE", "2"},
                                  {"LOCAL_RANK", rank},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", port}}));
  EXPECT_EQ(status_of(both[0]), 0) << read_text(folder / "error0");
  EXPECT_EQ(status_of(both[1]), 0) << read_text(folder / "error1");
  EXPECT_EQ(read_text(folder / "error1"), "");
  EXPECT_TRUE(fs::exists((folder / "out") + "/vanilla/metrics.json"));
}

// Sums of two processes go through gloo there, those of a launcher's group of one through NCCL.
TEST(Processes, OnOneGpuTwoDoWhatOneDoesAndSoDoesAGroupOfOne) {
  if (!runtime_info().cuda) GTEST_SKIP() << "there is no GPU here";
  TemporaryFolder folder;
  const Settings settings = {{"model_name_or_path", ASR_SOURCE_DIR "/tests/fixtures/models/llava"},
                             {"method", "lwf"},
                             {"device", "cuda"},
                             {"stream.tasks", "2"},
                             {"stream.train", "32"},
                             {"stream.val", "4"},
                             {"per_device_train_batch_size", "4"},
                             {"attention.layers", "1"},
                             {"attention.grid", "6"},
                             {"lora_rank", "4"}};
  setenv("ASR_SHARE_GPU", "1", 1);
  const auto [one, two] = run_both(folder, settings, 2);
  unsetenv("ASR_SHARE_GPU");
  expect_close_runs(one + "/lwf", two + "/lwf", 1e-3, /*spectra=*/false);
  const auto child = start_program({"run", write_config(folder, "alone", settings)}, folder / "error",
                                   {{"RANK", "0"},
                                    {"WORLD_SIZE", "1"},
                                    {"LOCAL_RANK", "0"},
                                    {"LOCAL_WORLD_SIZE", "1"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", std::to_string(free_port())}});
  EXPECT_EQ(status_of(child), 0) << read_text(folder / "error");
  expect_close_runs(one + "/lwf", (folder / "alone") + "/lwf", 1e-3, /*spectra=*/false);
}

TEST(Processes, BadInputIsOneClearLine) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const auto config = write_config(folder, "out", {});
  expect_refused({"run", config, "--processes", "0"}, "--processes");
  expect_refused({"run", config, "--processes", "2", "--set", "learning_rte=1"}, "did you mean 'learning_rate'");
  // Found by every process, said once.
  expect_refused({"run", config, "--processes", "2", "--set", "model_name_or_path=tiny-XXL"}, "tiny-XXL");
  fs::create_directory(folder / "out");
  write_text(folder / "out/thesis.tex", "years of work");
  expect_refused({"run", config, "--processes", "2"}, "is not empty and no run of ours");  // found by the first alone
  setenv("WORLD_SIZE", "2", 1);
  expect_refused({"run", config}, "RANK, MASTER_ADDR, MASTER_PORT are not set, though WORLD_SIZE is");
  setenv("RANK", "0", 1);
  setenv("MASTER_PORT", "29500", 1);
  expect_refused({"run", config}, "MASTER_ADDR is not set, though WORLD_SIZE is");
  setenv("MASTER_ADDR", "localhost", 1);
  expect_refused({"run", config, "--processes", "2"}, "a launcher has started several already");
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
}

}  // namespace
}  // namespace asr
