#include "cli/processes.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/interrupt.h"

extern char** environ;

namespace asr {
namespace {

constexpr useconds_t kLookEvery = 20000;

std::vector<char*> c_strings(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// In a process group of its own: Ctrl-C in a terminal reaches this process alone, which passes it on.
pid_t start_process(const ProcessJob& job) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, job.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> arguments = {"asr"}, environment;
  arguments.insert(arguments.end(), job.arguments.begin(), job.arguments.end());
  for (char** entry = environ; *entry; ++entry)
    if (std::string(*entry).rfind("ASR_LAUNCHER=", 0) != 0) environment.emplace_back(*entry);
  environment.push_back(cat("ASR_LAUNCHER=", getpid()));
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/proc/self/exe", &files, &how, c_strings(arguments).data(), c_strings(environment).data());
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) fail_system("a process cannot be started, with output to ", job.log, ": ", std::strerror(error));
  return pid;
}

class Running {
 public:
  ~Running() {  // none stays behind, whatever went wrong
    tell(SIGKILL);
    for (const auto& [pid, job] : jobs_) waitpid(pid, nullptr, 0);
  }
  void start(const ProcessJob& job, size_t index) { jobs_[start_process(job)] = index; }
  size_t count() const { return jobs_.size(); }
  void tell(int signal_number) const {
    for (const auto& [pid, job] : jobs_) kill(pid, signal_number);
  }
  void look(const std::function<void(size_t, int)>& ended) {
    for (auto place = jobs_.begin(); place != jobs_.end();) {
      int status = 0;
      if (waitpid(place->first, &status, WNOHANG) != place->first) {
        ++place;
        continue;
      }
      const size_t job = place->second;
      place = jobs_.erase(place);
      ended(job, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
  }

 private:
  std::map<pid_t, size_t> jobs_;
};

}  // namespace

void run_processes(const std::vector<ProcessJob>& jobs, int64_t at_a_time,
                   const std::function<void(size_t job, int status)>& ended) {
  const HearSignals hear("stopping the runs at their checkpoints; once more ends all at once");
  Running running;
  size_t next = 0;
  while (next < jobs.size() || running.count() > 0) {
    if (const int number = interrupted()) {
      running.tell(SIGTERM);
      while (running.count() > 0) {
        running.look([](size_t, int) {});
        usleep(kLookEvery);
      }
      throw Stopped("stopped with runs left to do; go on with --resume", number);
    }
    for (; next < jobs.size() && running.count() < static_cast<size_t>(at_a_time); ++next)
      running.start(jobs[next], next);
    running.look(ended);
    usleep(kLookEvery);
  }
}

}  // namespace asr
