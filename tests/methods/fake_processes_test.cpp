// Fake methods in a program of their own, as users run it: processes that share nothing but a socket and the run's
// folder, and one that is killed.
#include <signal.h>

#include <thread>

#include "tests/methods/fake_runs.h"

namespace asr {
namespace {

// A gate, vectors and weights by sample, and an objective of its own.
const std::vector<std::string> kTogether = {"fake-keys", "fake-inserted", "fake-objective"};

pid_t start_fakes(std::vector<std::string> arguments, const std::string& errors) {
  arguments.insert(arguments.end(), {"--threads", "1"});
  const pid_t child = fork();
  if (child != 0) return child;
  dup2(open("/dev/null", O_WRONLY), 1);
  dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
  auto list = command_line(arguments);
  execv(ASR_FAKE_PROGRAM, list.data());
  _exit(127);
}

int status_of_fakes(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// All of them, one after the other, in one command.
std::string fakes_config(const TemporaryFolder& folder, const std::string& name, const Settings& more) {
  Settings settings = {{"stream.tasks", "2"},        {"stream.train", "16"},     {"stream.val", "4"},
                       {"analysis.samples", "2"},    {"analysis.overlays", "1"}, {"lora_rank", "4"},
                       {"fake-keys.sharpness", "20"}};
  std::string methods;
  for (const auto& method : kTogether) methods += (methods.empty() ? "[" : ", ") + method;
  settings.emplace_back("method", methods + "]");
  settings.insert(settings.end(), more.begin(), more.end());
  return write_config(folder, name, settings);
}

void expect_done(const TemporaryFolder& folder, const std::vector<std::string>& arguments) {
  ASSERT_EQ(status_of_fakes(start_fakes(arguments, folder / "error")), 0) << read_text(folder / "error");
}

void expect_two_do_what_one_does(const TemporaryFolder& folder, const Settings& settings) {
  expect_done(folder, {"run", fakes_config(folder, "one", settings)});
  expect_done(folder, {"run", fakes_config(folder, "two", settings), "--processes", "2"});
  EXPECT_CONTAINS(read_text(folder / "error"), "2 processes summed ");
  for (const auto& method : kTogether) {
    const auto one = folder / "one/" + method, two = folder / "two/" + method;
    EXPECT_EQ(read_text(one + "/matrix.csv"), read_text(two + "/matrix.csv")) << method;
    expect_close_logs(one, two, 2e-4);
    expect_close_adapters(one, two, 2e-3);
  }
}

TEST(FakeProcesses, TwoDoWhatOneDoesOnABuiltInModel) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  expect_two_do_what_one_does(folder, {});
}

TEST(FakeProcesses, TwoDoWhatOneDoesOnAModelFromAFolder) {
  TemporaryFolder folder;
  expect_two_do_what_one_does(folder, {{"model_name_or_path", ASR_SOURCE_DIR "/tests/fixtures/models/llava"},
                                       {"stream.train", "4"},
                                       {"stream.val", "2"},
                                       {"per_device_train_batch_size", "2"},
                                       {"attention.layers", "1"},
                                       {"attention.grid", "6"}});
}

std::vector<pid_t> copies_of(pid_t parent) {
  std::ifstream in(cat("/proc/", parent, "/task/", parent, "/children"));
  std::vector<pid_t> out;
  for (pid_t pid; in >> pid;) out.push_back(pid);
  return out;
}

bool runs(pid_t pid) {
  std::error_code gone;
  return std::filesystem::exists(cat("/proc/", pid, "/exe"), gone);
}

// When the method's second stage has begun, the command and its copies are killed at once; whether they were.
bool kill_in_second_stage(pid_t command, const std::string& run) {
  for (int i = 0; i < 60000; ++i) {
    const auto copies = copies_of(command);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (copies.size() < 2 || read_text(run + "/log.jsonl").find("\"stage\":2") == std::string::npos) continue;
    kill(command, SIGKILL);
    for (const pid_t copy : copies) kill(copy, SIGKILL);
    for (const pid_t copy : copies)
      while (runs(copy)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  }
  return false;
}

TEST(FakeProcesses, KilledAndResumedTheyEndInTheSameBits) {
  TemporaryFolder folder;
  write_small_model(folder / "model");
  const Settings settings = {{"num_train_epochs", "10"}, {"save_steps", "1"}};  // long enough to be met in the middle
  expect_done(folder, {"run", fakes_config(folder, "straight", settings), "--processes", "2"});
  const std::vector<std::string> again = {"run", fakes_config(folder, "killed", settings), "--processes", "2",
                                          "--resume"};
  for (const auto& method : kTogether) {
    const auto child = start_fakes(again, folder / "error");
    EXPECT_TRUE(kill_in_second_stage(child, folder / "killed/" + method)) << method;
    EXPECT_EQ(status_of_fakes(child), 128 + SIGKILL) << method << read_text(folder / "error");
  }
  expect_done(folder, again);
  for (const auto& method : kTogether) expect_same_files(folder / "straight/" + method, folder / "killed/" + method);
}

}  // namespace
}  // namespace asr
