// A run as it lies on disk: one method folder with its identity, scores and costs. Scores are computed from its score
// matrices; what metrics.json says of them is only compared. Large parts (log, predictions, analysis) stay on disk
// until a figure asks for them, see run_files.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "metrics/named_scores.h"
#include "report/intervals.h"

namespace asr {

struct SkillCurve {
  std::string name;
  std::vector<double> accuracy;  // 0..100 after each stage; NaN where unseen
};

struct RunCost {  // NaN where the file says nothing
  double step_ms, train_seconds, eval_seconds, stored_bytes, adapter_parameters;
  double passes;  // of training, over all tasks' data
};

struct Run {
  std::string folder;  // of the method, e.g. OUT/asr-seed2; "TABLE:LINE" for a row of a table
  std::string root;    // OUT, or the table
  std::string label;   // the method and its variant, e.g. asr-no-angular
  std::string method, stream, backbone;
  std::string series;    // of a table of runs: what it was made for, with others; empty: not named
  std::string held_out;  // concept group that training left out (VQACL's novel composition); empty: none
  std::string split;     // that was scored; empty: not known, so val
  std::string settings;  // hash of options and data, the same for other seeds and orders; empty: not known
  std::string head;      // how answers are given: generate or answers; empty: not known, so generate
  std::string strength;  // the method's strength as the protocol names it, "ewc.lambda=1000"; empty: not known
  double rate = kUnknown, epochs = kUnknown;   // learning_rate and num_train_epochs
  std::map<std::string, std::string> options;  // by full names; none for a row of a table
  int64_t seed = 0, order = 0;
  bool replay_free = true, complete = true;
  std::vector<std::string> tasks;  // in the order trained
  NamedScores scores;              // over the stages there are; NaN where undefined
  double outside = NAN;            // percent of wrong answers that are none of their task's, after the last stage
  RunCost cost{};
  std::vector<SkillCurve> skills;
  ScoreMatrix matrix;  // a joint run has one row, with every task in it
  ScoreMatrix novel;   // on unseen compositions; no rows where the stream has none

  bool one_stage = false;  // on the union of all tasks

  bool joint() const { return one_stage; }
  std::string scored_split() const { return split.empty() ? "val" : split; }
  std::string answer_head() const { return head.empty() ? "generate" : head; }
  bool from_table() const { return folder.rfind(root + ":", 0) == 0; }  // it has no files of its own
  double score(const std::string& metric) const;                        // NaN when absent
  std::string option(const std::string& key) const;                     // "" where it is not known
  std::string name() const;                                             // "asr, seed 2, order 1", for messages
};

// Nested options by their dotted names, as Run::options has them.
std::map<std::string, std::string> dotted_options(const nlohmann::json& options);

struct RunSet {
  std::vector<Run> runs;             // those with a stage done, by folder
  std::vector<std::string> skipped;  // one line each: folder and why
  std::vector<std::string> damaged;  // those of them that cannot be read
  std::vector<std::string> notes;    // what a reader of the numbers should know
  std::string out;                   // the one OUT folder that was named; empty when several, or a method folder
};

// Each path is an OUT folder, a method folder or a table of runs, FILE.csv or FILE.csv:SERIES (runs_csv.h). Bad content
// is an error. An unfinished run keeps its scores over the stages so far under a label that says how many there are;
// one without any stage is skipped; no run at all is an error.
enum class Damaged { is_an_error, is_skipped };  // a run that cannot be read, or stands twice
RunSet load_runs(const std::vector<std::string>& paths, Damaged damaged = Damaged::is_an_error);

// The folders of runs in these paths, whether they can be read or not.
std::vector<std::string> run_folders(const std::vector<std::string>& paths);

}  // namespace asr
