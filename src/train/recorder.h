// What a run leaves behind while it goes on: its log, predictions, score matrices, analyses, the adapter, and the words
// it says to people. Process 0 writes; the others make the same calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/checksums.h"
#include "base/sha256.h"
#include "train/evaluator.h"
#include "train/event_log.h"
#include "train/loop.h"
#include "train/run_parts.h"

namespace asr {

class Recorder {
 public:
  explicit Recorder(RunParts& parts) : parts_(parts) {}

  // Files.
  void open_files();
  Checksums& files() { return *files_; }
  void write_kept_state();
  void write_results(bool complete);

  // The log: lines of JSON, of which a checkpoint knows how many there were.
  struct LogMark {
    int64_t bytes = 0;
    std::string sha256;
  };
  std::string log_path() const { return parts_.key.folder + "/log.jsonl"; }
  LogMark log_mark() const { return {log_bytes_, Sha256(log_hash_).hex()}; }
  void start_log(const std::string& text);
  void restore_log(const nlohmann::json& state);
  void start_event_log();
  void log(nlohmann::json line);
  void log_step(const Phase& phase, const Loop::Done& done);

  // Evaluation after a stage, or of the untouched base.
  void evaluate();

  // Time.
  int64_t total_steps = 0;
  void training_begins();
  void training_pauses();       // adds the time since training_begins to the position
  double seconds_left() const;  // of the whole run, as fast as it went so far; NaN: not known yet

 private:
  TaskScore score(const SampleSet& set, size_t task) const;
  void evaluate_novel(size_t position, const StreamTask& task);
  void write_stage_analysis(const std::vector<AnalysedTask>& analysed);
  void log_skills(const std::vector<AnalysedTask>& analysed);
  void write_memory(const std::string& folder);
  void write_adapter();
  nlohmann::json metrics(bool complete) const;
  double mean_score() const;  // of the newest row
  void say_scores() const;

  RunParts& parts_;
  std::optional<Checksums> files_;  // process 0 writes through it
  std::optional<EventLog> events_;
  int64_t log_bytes_ = 0;
  Sha256 log_hash_;  // of what was logged so far
  double start_seconds_ = 0;
  bool training_ = false;      // now: `start_seconds_` counts
  int64_t answered_ = 0;       // samples, by this process in
  double answer_seconds_ = 0;  // so long
};

}  // namespace asr
