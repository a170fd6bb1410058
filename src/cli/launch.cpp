#include "cli/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "parallel/data_parallel.h"

extern char** environ;

namespace asr {
namespace {

using Clock = std::chrono::steady_clock;
// A copy that cannot reach a dead one waits longer than this before it complains, and is ended first.
constexpr auto kGrace = std::chrono::seconds(3);
// After a SIGTERM all is over within ten seconds: a batch system does not wait for ever. Ctrl-C has a second Ctrl-C.
constexpr auto kTerm = std::chrono::seconds(8);

volatile std::sig_atomic_t signals_seen = 0, last_signal = 0;

void note_signal(int number) {
  signals_seen = signals_seen + 1;
  last_signal = number;
}

// While it lives, signals are counted here instead of ending the launcher.
struct Forwarding {
  Forwarding() {
    struct sigaction action = {};
    action.sa_handler = note_signal;
    sigaction(SIGINT, &action, &old_int);
    sigaction(SIGTERM, &action, &old_term);
    sigaction(SIGHUP, &action, &old_hup);
  }
  ~Forwarding() {
    sigaction(SIGINT, &old_int, nullptr);
    sigaction(SIGTERM, &old_term, nullptr);
    sigaction(SIGHUP, &old_hup, nullptr);
  }
  struct sigaction old_int = {}, old_term = {}, old_hup = {};
};

struct Copy {
  pid_t pid = -1;
  int messages = -1;  // read end of its stderr; the first copy keeps ours
  std::string heard;  // the end of what it said
  bool ended = false, ended_by_us = false;
  int status = 0;  // as waitpid gives it

  bool well() const { return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0; }
  bool failed_by_itself() const { return ended && !ended_by_us && WIFEXITED(status) && WEXITSTATUS(status) != 0; }

  void listen() {
    if (messages < 0) return;
    char buffer[4096];
    for (ssize_t got; (got = read(messages, buffer, sizeof buffer)) > 0;)
      heard.append(buffer, static_cast<size_t>(got));
    if (heard.size() > 8192) heard.erase(0, heard.size() - 4096);
  }
  // Without the name of the program in front.
  std::string last_line() const {
    auto text = heard.substr(0, heard.find_last_not_of('\n') + 1);
    text = text.substr(text.rfind('\n') + 1);
    return text.rfind("asr: ", 0) == 0 ? text.substr(5) : text;
  }
};

std::vector<std::string> own_arguments() {
  const auto text = read_file("/proc/self/cmdline", 1 << 24);
  std::vector<std::string> out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::vector<std::string> environment_of(int64_t rank, int64_t processes, uint16_t port) {
  const std::vector<std::pair<std::string, std::string>> added = {{"RANK", cat(rank)},
                                                                  {"WORLD_SIZE", cat(processes)},
                                                                  {"LOCAL_RANK", cat(rank)},
                                                                  {"MASTER_PORT", cat(port)},
                                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                                  {"LOCAL_WORLD_SIZE", cat(processes)},
                                                                  {"ASR_LAUNCHER", cat(getpid())}};
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const auto name = text.substr(0, text.find('='));
    if (std::none_of(added.begin(), added.end(), [&](const auto& item) { return item.first == name; }))
      out.push_back(text);
  }
  for (const auto& [name, value] : added) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// A process group of its own: Ctrl-C in a terminal reaches the launcher alone, which passes it on once.
Copy start_copy(int64_t rank, int64_t processes, uint16_t port) {
  Copy copy;
  int ends[2] = {-1, -1};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  if (rank > 0) {
    if (pipe2(ends, O_CLOEXEC) != 0) fail_system("no pipe to process ", rank, " can be made: ", std::strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 2);
  }
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
  auto arguments = own_arguments(), environment = environment_of(rank, processes, port);
  const int error =
      posix_spawn(&copy.pid, "/proc/self/exe", &files, &how, pointers(arguments).data(), pointers(environment).data());
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  if (rank > 0) {
    close(ends[1]);
    copy.messages = ends[0];
  }
  if (error != 0) fail_system("process ", rank, " cannot be started: ", std::strerror(error));
  return copy;
}

class Copies {
 public:
  explicit Copies(int64_t processes) {
    for (int64_t rank = 0; rank < processes; ++rank) copies_.push_back(start_copy(rank, processes, meeting_.port()));
  }
  ~Copies() {  // none stays behind, whatever went wrong
    end_rest();
    for (auto& copy : copies_) {
      if (!copy.ended && copy.pid > 0) waitpid(copy.pid, nullptr, 0);
      if (copy.messages >= 0) close(copy.messages);
    }
  }

  void wait() {
    const Forwarding forwarding;
    int forwarded = 0;
    while (std::any_of(copies_.begin(), copies_.end(), [](const Copy& c) { return !c.ended; })) {
      if (signals_seen > forwarded) {
        ++forwarded;
        forward();
      }
      look();
      if (first_bad_ >= 0 && Clock::now() - bad_since_ > kGrace) end_rest();
      if (!told_to_end_ || Clock::now() - told_since_ <= kTerm) continue;
      overdue_ = true;
      end_rest();
    }
  }

  // The launcher's own exit status, and its one line where no copy has said one.
  int outcome() const {
    if (overdue_) {
      std::cerr << "asr: not all processes had stopped " << kTerm.count()
                << " s after SIGTERM and were ended; --resume goes on from the newest checkpoint\n";
      return 128 + SIGTERM;
    }
    if (first_bad_ < 0) return 0;
    const auto &first = copies_[0], &bad = copies_[static_cast<size_t>(first_bad_)];
    if (first.failed_by_itself()) return WEXITSTATUS(first.status);  // it has said why
    const auto who = cat("process ", first_bad_, " of ", copies_.size());
    if (WIFSIGNALED(bad.status)) {
      const int number = WTERMSIG(bad.status);
      if (signals_seen > 0 && number == last_signal) return 128 + number;  // before a run could catch it
      std::cerr << "asr: " << who << " was ended by signal " << number << " (" << strsignal(number)
                << "), so the others were stopped; go on with --resume\n";
      return 1;
    }
    const auto said = bad.last_line();
    std::cerr << "asr: " << who << ": "
              << (said.empty() ? cat("ended with status ", WEXITSTATUS(bad.status)) : printable(said, 2000)) << "\n";
    return WEXITSTATUS(bad.status);
  }

 private:
  void forward() {
    send(last_signal, false);
    if (last_signal != SIGTERM || told_to_end_) return;
    told_to_end_ = true;
    told_since_ = Clock::now();
  }

  void look() {
    std::vector<pollfd> pipes;
    for (const auto& copy : copies_)
      if (copy.messages >= 0 && !copy.ended) pipes.push_back({copy.messages, POLLIN, 0});
    poll(pipes.data(), pipes.size(), 50);
    bool hung_up = false;
    for (const auto& p : pipes) hung_up = hung_up || (p.revents & POLLHUP);
    if (hung_up) poll(nullptr, 0, 10);  // its status comes right after
    for (size_t rank = 0; rank < copies_.size(); ++rank) {
      auto& copy = copies_[rank];
      copy.listen();
      if (copy.ended || waitpid(copy.pid, &copy.status, WNOHANG) != copy.pid) continue;
      copy.ended = true;
      copy.listen();
      if (!copy.well() && first_bad_ < 0) {
        first_bad_ = static_cast<int64_t>(rank);
        bad_since_ = Clock::now();
      }
    }
  }

  void send(int number, bool by_us) {
    for (auto& copy : copies_) {
      if (!copy.ended && copy.pid > 0) {
        kill(copy.pid, number);
        copy.ended_by_us = copy.ended_by_us || by_us;
      }
    }
  }
  void end_rest() { send(SIGKILL, true); }

  Meeting meeting_;
  std::vector<Copy> copies_;
  int64_t first_bad_ = -1;
  bool told_to_end_ = false, overdue_ = false;
  Clock::time_point bad_since_, told_since_;
};

}  // namespace

int launch_copies(int64_t processes) {
  Copies copies(processes);
  copies.wait();
  return copies.outcome();
}

void end_with_launcher() {
  const char* launcher = std::getenv("ASR_LAUNCHER");
  if (!launcher) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (cat(getppid()) != launcher) _exit(1);  // it went before this line
}

}  // namespace asr
