// The program behind a fork: loading libtorch takes over half a second, a fork of a process that has done so some
// milliseconds. Reads a command a line on stdin (arguments between tabs, after the folder for `out` and `error` and the
// seconds it may take), runs it in a child and answers "STATUS SECONDS"; 128 + N for a signal, 124 for one that had to
// be killed. What still runs at the limit gets SIGTERM first: a long command must end in order then.
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace {

constexpr double kGrace = 15;                     // seconds after SIGTERM
constexpr rlim_t kMostMemory = rlim_t(24) << 30;  // bytes of address space; libtorch maps a few itself
constexpr rlim_t kLargestFile = rlim_t(512) << 20;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> out(1);
  for (const char c : line)
    if (c == '\t')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

[[noreturn]] void run_child(const std::vector<std::string>& fields) {
  setpgid(0, 0);
  const rlimit memory{kMostMemory, kMostMemory}, file{kLargestFile, kLargestFile}, core{0, 0};
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_FSIZE, &file);
  setrlimit(RLIMIT_CORE, &core);
  const auto redirect = [&](const char* name, int flags, int to) { dup2(open(name, flags, 0600), to); };
  redirect((fields[0] + "/in").c_str(), O_RDONLY, 0);
  redirect((fields[0] + "/out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 1);
  redirect((fields[0] + "/error").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 2);
  std::vector<char*> list = {const_cast<char*>("asr")};
  for (size_t i = 2; i < fields.size(); ++i) list.push_back(const_cast<char*>(fields[i].c_str()));
  list.push_back(nullptr);
  const int status = asr::program(static_cast<int>(list.size()) - 1, list.data());
  std::cout.flush();
  std::fflush(nullptr);
  _exit(status);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int wait_for(pid_t child, double limit, double start) {
  int status = 0;
  bool told = false;
  while (waitpid(child, &status, WNOHANG) != child) {
    const double taken = now() - start;
    if (taken > limit && !told) told = kill(-child, SIGTERM) == 0;
    if (taken > limit + kGrace) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      return 124;
    }
    usleep(taken < 0.05 ? 500 : 5000);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main() {
  at::set_num_threads(1);  // a child cannot use a thread pool that its parent started
  for (std::string line; std::getline(std::cin, line);) {
    const auto fields = split(line);
    if (fields.size() < 3) continue;
    const double start = now();
    const pid_t child = fork();
    if (child == 0) run_child(fields);
    const int status = wait_for(child, std::stod(fields[1]), start);
    std::printf("%d %.3f\n", status, now() - start);
    std::fflush(stdout);
  }
  return 0;
}
