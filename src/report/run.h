// A finished run as it lies on disk: one method folder with its identity, scores and costs. Large parts (log,
// predictions, analysis) stay on disk until a figure asks for them, see run_files.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "metrics/score_matrix.h"

namespace asr {

struct SkillCurve {
  std::string name;
  std::vector<double> accuracy;  // 0..100 after each stage; NaN where unseen
};

struct RunCost {  // NaN where the file says nothing
  double step_ms, train_seconds, eval_seconds, stored_bytes, adapter_parameters;
};

struct Run {
  std::string folder;  // of the method, e.g. OUT/asr-seed2
  std::string root;    // OUT
  std::string label;   // the method and its variant, e.g. asr-no-angular
  std::string method, stream, backbone;
  int64_t seed = 0, order = 0;
  bool replay_free = true;
  std::vector<std::string> tasks;        // in the order trained
  std::map<std::string, double> scores;  // as metrics.json has them; NaN where undefined
  RunCost cost{};
  std::vector<SkillCurve> skills;
  ScoreMatrix matrix;  // a joint run has one row, with every task in it

  bool joint() const { return method == "joint"; }
  double score(const std::string& metric) const;  // NaN when absent
  std::string name() const;                       // "asr, seed 2, order 1", for messages
};

struct RunSet {
  std::vector<Run> runs;             // complete ones, by folder
  std::vector<std::string> skipped;  // one line each: folder and why
  std::vector<std::string> notes;    // what a reader of the numbers should know
  std::string out;                   // the one OUT folder that was named; empty when several, or a method folder
};

// Each path is an OUT folder or a method folder. Bad content is an error; an unfinished run is skipped; no complete run
// at all is an error.
RunSet load_runs(const std::vector<std::string>& paths);

}  // namespace asr
