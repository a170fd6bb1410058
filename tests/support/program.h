// Runs the program as a user would and keeps what it printed.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace asr {

struct Outcome {
  int status = -1;
  std::string out, error;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline Outcome run_program(const std::vector<std::string>& arguments, const std::string& input = "/dev/null") {
  TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(input.c_str(), O_RDONLY), 0);
    dup2(open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open((folder / "error").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    std::vector<char*> list = {const_cast<char*>(ASR_PROGRAM)};
    for (const auto& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
    list.push_back(nullptr);
    execv(ASR_PROGRAM, list.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(folder / "out"),
          read_text(folder / "error")};
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
