// Runs of a plan (asr admit, asr tune --protocol) as processes side by side, each `asr run` with an output folder of
// its own. Nothing is noted beside the runs themselves: what is complete on disk is done, wherever it was run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "report/run.h"
#include "train/run_options.h"

namespace asr {

// One run: what it sets beside the plan's configuration.
struct Trial {
  std::string folder;            // below the plan's output_dir
  std::vector<Assignment> sets;  // method, label, seeds, eval_split, the point of a grid
};

struct TrialArguments {
  std::vector<std::string> configs, sets;
  int64_t jobs = 1;
  bool resume = false;
  bool list_only = false;  // the runs of the next step are printed instead
};

// "a=1,b=2" as a name of folders and labels.
std::string point_name(const std::vector<Assignment>& values);

class Trials {
 public:
  // Resolves the configuration and looks at its stream, so that bad input costs nothing. `command` is for messages.
  Trials(std::string command, TrialArguments arguments);

  const RunConfig& config() const { return config_; }
  const std::string& reported_split() const { return reported_; }  // test, or val where a task has no test rows
  const std::string& root() const { return config_.run.output_dir; }

  void check_trial(const Trial& trial) const;  // its options exist and hold values that they may

  // Complete runs of a table, FILE.csv or FILE.csv:SERIES, count as done where they are a trial's: of this stream, with
  // its method, label, seed, split, rate and strength. Whatever else they were made with is not known.
  void know(const std::string& table);

  // The run where it is complete. One on disk that was made with other options is an error.
  std::optional<Run> result(const Trial& trial) const;
  bool diverged(const Trial& trial) const;  // it ended because its loss was no number
  bool settled(const Trial& trial) const { return result(trial) || diverged(trial); }

  // All are complete afterwards, or have diverged, which makes a bad point and is no failure: what is missing is run,
  // `jobs` at a time. False with `list_only` where something is missing: its lines are printed, nothing is run.
  bool settle(const std::vector<Trial>& trials) const;

  // The arguments of `asr run` in a line that a shell and tools/run_many.py take.
  std::string line(const Trial& trial) const;

 private:
  void run(const std::vector<Trial>& todo, size_t of) const;
  RunConfig resolved(const Trial& trial) const;
  std::vector<std::string> arguments_of(const Trial& trial) const;
  std::string log_of(const Trial& trial) const;
  std::optional<Run> known(const Trial& trial) const;

  std::string command_;
  TrialArguments arguments_;
  std::vector<Assignment> base_;
  RunConfig config_;
  std::string reported_;
  std::vector<Run> known_;  // of tables
};

}  // namespace asr
