// Runs the program as a user would and keeps what it printed: in a child of the test, which has libtorch loaded already
// (loading it takes half a second). run_executable starts build/asr itself.
#pragma once

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.h"
#include "tensor/runtime.h"
#include "tests/support/files.h"

namespace asr {

struct Outcome {
  int status = -1;
  std::string out, error;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// A child cannot use a thread pool that its parent started; the program sets its own number of threads.
inline const bool one_thread_before_fork = (at::set_num_threads(1), true);

using Environment = std::vector<std::pair<std::string, std::string>>;

inline std::vector<char*> command_line(const std::vector<std::string>& arguments) {
  std::vector<char*> list = {const_cast<char*>(ASR_PROGRAM)};
  for (const auto& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
  list.push_back(nullptr);
  return list;
}

// The program beside the test, saying nothing but what goes to `errors`; the caller waits for it.
inline pid_t start_program(const std::vector<std::string>& arguments, const std::string& errors,
                           const Environment& environment = {}) {
  const pid_t child = fork();
  if (child != 0) return child;
  dup2(open("/dev/null", O_WRONLY), 1);
  dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  execv(ASR_PROGRAM, command_line(arguments).data());
  _exit(127);
}

// `start` gets the program's command line and returns its exit status, or does not return.
template <class Start>
Outcome run_in_child(const std::vector<std::string>& arguments, const std::string& input, Start start) {
  TemporaryFolder folder;
  std::cout.flush();
  std::fflush(nullptr);  // or the child would print it once more
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(input.c_str(), O_RDONLY), 0);
    dup2(open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open((folder / "error").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    auto list = command_line(arguments);
    const int status = start(list);
    std::cout.flush();
    std::fflush(nullptr);
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(folder / "out"),
          read_text(folder / "error")};
}

inline Outcome run_executable(const std::vector<std::string>& arguments, const std::string& input = "/dev/null") {
  return run_in_child(arguments, input, [](std::vector<char*>& list) {
    execv(ASR_PROGRAM, list.data());
    return 127;
  });
}

// Copies of itself that the program starts must not be copies of the test; and where there is a GPU, neither CUDA nor
// the threads that gradients have started survive a fork.
inline Outcome run_program(const std::vector<std::string>& arguments, const std::string& input = "/dev/null") {
  if (runtime_info().cuda) return run_executable(arguments, input);
  for (const char* own : {"--processes", "cuda"})
    if (std::find(arguments.begin(), arguments.end(), own) != arguments.end()) return run_executable(arguments, input);
  return run_in_child(arguments, input,
                      [](std::vector<char*>& list) { return program(static_cast<int>(list.size()) - 1, list.data()); });
}

// Bad input: exit status 2, nothing on stdout, one line on stderr that holds `part`.
inline void expect_refused(const std::vector<std::string>& arguments, const std::string& part) {
  const auto outcome = run_program(arguments);
  std::string shown;
  for (const auto& argument : arguments) shown += " " + argument;
  EXPECT_EQ(outcome.status, 2) << shown << "\n" << outcome.error;
  EXPECT_EQ(outcome.out, "") << shown;
  EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << shown << "\n" << outcome.error;
  EXPECT_CONTAINS(outcome.error, part);
}

}  // namespace asr
