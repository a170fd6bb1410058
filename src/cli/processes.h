// Copies of this program with other arguments, some at a time, each with a file for what it says.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace asr {

struct ProcessJob {
  std::vector<std::string> arguments;  // after the name of the program
  std::string log;                     // what it prints is added to this file
};

// Runs them in order, at most `at_a_time` side by side; `ended` hears of each: which, and its exit status (128 and the
// signal's number where one ended it). A signal to this process stops them at their next checkpoint and ends by
// throwing Stopped. None outlives this process.
void run_processes(const std::vector<ProcessJob>& jobs, int64_t at_a_time,
                   const std::function<void(size_t job, int status)>& ended);

}  // namespace asr
