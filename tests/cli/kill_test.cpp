// A command killed at each moment at which it changes a file, then called again: it ends as if nothing had happened.
// The calls that change files are taken here in place of libc's; a child of the test dies in the one it was told to.
// What goes into a temporary does not count: it is the rename that matters.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/support/program.h"
#include "tests/train/run_support.h"
#include "train/checkpoint.h"

namespace {

std::atomic<int> calls_left = 0;  // 0: never dies

void count_call() {
  if (calls_left == 0 || --calls_left > 0) return;
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// A call that finds nothing to change does not count.
void count_change(int folder, const char* path) {
  struct stat info;
  if (fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) == 0) count_call();
}

// A log is written where it stands.
void count_append(int descriptor) {
  if (calls_left > 0 && (fcntl(descriptor, F_GETFL) & O_APPEND) != 0) count_call();
}

template <class Result, class... Arguments>
Result call_libc(const char* name, Arguments... arguments) {
  return reinterpret_cast<Result (*)(Arguments...)>(dlsym(RTLD_NEXT, name))(arguments...);
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) noexcept {
  count_change(AT_FDCWD, from);
  return call_libc<int>("rename", from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  count_change(to_folder, to);
  return call_libc<int>("renameat2", from_folder, from, to_folder, to, flags);
}
int unlink(const char* path) noexcept {
  count_change(AT_FDCWD, path);
  return call_libc<int>("unlink", path);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  count_change(folder, path);
  return call_libc<int>("unlinkat", folder, path, flags);
}
int remove(const char* path) noexcept {
  count_change(AT_FDCWD, path);
  return call_libc<int>("remove", path);
}
int mkdir(const char* path, mode_t mode) noexcept {
  count_call();
  return call_libc<int>("mkdir", path, mode);
}
ssize_t write(int descriptor, const void* data, size_t size) {
  count_append(descriptor);
  return call_libc<ssize_t>("write", descriptor, data, size);
}
ssize_t writev(int descriptor, const iovec* parts, int count) {
  count_append(descriptor);
  return call_libc<ssize_t>("writev", descriptor, parts, count);
}

}  // extern "C"

namespace asr {
namespace {

namespace fs = std::filesystem;

// Runs the program in a child that dies in its n-th call; false: it came through.
bool dies_in_call(int n, const std::vector<std::string>& arguments) {
  const auto outcome = run_in_child(arguments, "/dev/null", [n](std::vector<char*>& list) {
    calls_left = n;
    return program(static_cast<int>(list.size()) - 1, list.data());
  });
  if (outcome.status == 128 + SIGKILL) return true;
  EXPECT_EQ(outcome.status, 0) << "in call " << n << ": " << outcome.error;
  return false;
}

// A run's files but for the times in them, which differ from run to run.
std::string without_times(const std::string& name, const std::string& text) {
  if (name == "state.safetensors") {  // the times are in its header
    uint64_t header = 0;
    std::memcpy(&header, text.data(), 8);
    return text.substr(8 + header);
  }
  if (name == "report.html") return "";  // shows what training took
  if (name == "checksums.json") {        // its own checksum, and those of files with times in them
    auto list = nlohmann::json::parse(text)["files"];
    for (const char* file : {"log.jsonl", "metrics.json"}) list[file]["sha256"] = list[file]["sha256"].size();
    return list.dump();
  }
  if (name != "log.jsonl" && name != "metrics.json" && name != "trainer_state.json") return text;
  std::string out;
  std::istringstream lines(text);
  for (std::string line; name == "log.jsonl" ? !std::getline(lines, line).fail() : out.empty();) {
    auto value = nlohmann::json::parse(name == "log.jsonl" ? line : text);
    for (const char* key : {"elapsed_time", "remaining_time", "cost", "prepare_seconds", "train_seconds",
                            "other_seconds", "eval_seconds", "finish_seconds", "log_bytes", "log_sha256", "time"})
      value.erase(key);
    out += value.dump() + "\n";
  }
  return out;
}

// Names and contents of all files.
std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    out[fs::relative(entry.path(), folder).string()] =
        entry.is_directory() ? "" : without_times(entry.path().filename(), read_text(entry.path().string()));
  return out;
}

void expect_same_files(const std::map<std::string, std::string>& wanted,
                       const std::map<std::string, std::string>& have) {
  for (const auto& [name, content] : wanted) EXPECT_TRUE(have.count(name)) << name << " is missing";
  for (const auto& [name, content] : have) {
    const auto place = wanted.find(name);
    if (place != wanted.end())
      EXPECT_TRUE(content == place->second) << name << " differs";
    else  // processes share the outer folder of their runs: nobody clears up there
      EXPECT_TRUE(name.find(".tmp-") < name.find('/')) << name << " is left over";
  }
}

// `after_kill` sees the folder as the kill left it.
template <class AfterKill>
void expect_same_end(const std::vector<std::string>& arguments, const std::string& out, AfterKill after_kill) {
  const auto straight = run_program(arguments);
  ASSERT_EQ(straight.status, 0) << straight.error;
  const auto wanted = files_of(out);
  fs::remove_all(out);
  int n = 1;
  for (; dies_in_call(n, arguments) && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE(cat("killed in call ", n));
    after_kill();
    const auto again = run_program(arguments);
    ASSERT_EQ(again.status, 0) << again.error;
    expect_same_files(wanted, files_of(out));
    fs::remove_all(out);
  }
  EXPECT_GT(n, 20);  // or the calls were not seen
}

std::vector<std::string> write_run(const TemporaryFolder& folder, const std::string& out) {
  write_small_model(folder / "model");
  std::map<std::string, std::string> options;
  for (const auto& o : small_run(folder / "model", out, "asr+er")) options[o.key] = o.value;
  options["stream.tasks"] = "2";
  options["stream.train"] = "8";
  options["stream.val"] = "2";
  options["save_steps"] = "1";
  options["save_total_limit"] = "1";
  std::string yaml;
  for (const auto& [key, value] : options) yaml += key + ": " + value + "\n";
  write_text(folder / "c.yaml", yaml);
  return {"run", folder / "c.yaml", "--threads", "1", "--resume"};
}

TEST(KilledCommand, RunEndsTheSameAndAlwaysHasACheckpoint) {
  TemporaryFolder folder;
  const auto out = folder / "out";
  const auto arguments = write_run(folder, out);
  bool saved = false;
  expect_same_end(arguments, out, [&] {
    const bool now = load_latest_checkpoint(out + "/asr+er/checkpoints").has_value();
    EXPECT_TRUE(now || !saved) << "the only checkpoint is lost";
    saved = saved || now;
  });
  EXPECT_TRUE(saved);
}

TEST(KilledCommand, PrepareEndsTheSame) {
  TemporaryFolder folder;
  const auto exported = run_program({"world", "export", "--stream", "world-sc", "-o", folder / "world", "--train", "1",
                                     "--val", "1", "--tune", "1", "--size", "40"});
  ASSERT_EQ(exported.status, 0) << exported.error;
  expect_same_end({"prepare", "manifest", "--source", folder / "world", "-o", folder / "stream"}, folder / "stream",
                  [] {});
}

}  // namespace
}  // namespace asr
