// One run: a method, a seed and a task order over a stream (the paper's Algorithm 1). The trainer owns the loop; see
// methods/method.h for what a method may do in it. Every random choice is keyed by (seed, stage, step), so that a run
// resumed from any checkpoint continues to the same bits.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/checksums.h"
#include "base/sha256.h"
#include "metrics/score_matrix.h"
#include "nn/adamw.h"
#include "train/checkpoint.h"
#include "train/data.h"
#include "train/evaluator.h"
#include "train/event_log.h"
#include "train/run_options.h"

namespace asr {

struct RunKey {
  std::string composition, label;
  int64_t seed = 0, order = 0;
  std::string folder;                    // of this run
  nlohmann::json fingerprint = nullptr;  // what it is made of (train/run_identity.h); only process 0 knows it
};

class Trainer {
 public:
  // `model` is the base; the run adds its adapters and takes them away again.
  // Every process of the team makes the same calls; its first one writes the files.
  Trainer(const RunConfig& config, const RunKey& key, Backbone& model, Data& data, const Team& team);
  ~Trainer();

  // Trains, evaluates and writes everything of a run's folder. With `resume`, goes on from the newest checkpoint.
  // `ready` is called when nothing can be refused any more.
  void run(bool resume, const std::function<void()>& ready = {});

  int64_t steps() const { return total_steps_; }  // of all stages
  int64_t trained_numbers() const;

 private:
  // How far the run is; all of it is in a checkpoint.
  struct Position {
    int stage = 0;                      // 0: before the zero-shot row
    int64_t step = 0, global_step = 0;  // steps done in the stage, in all
    bool trained = false;               // the stage's steps are done, its evaluation is not
    double train_seconds = 0, eval_seconds = 0, finish_seconds = 0;
    std::vector<std::vector<double>> rows;                             // scores, row 0 is zero-shot
    std::vector<std::vector<double>> novel;                            // on unseen compositions, from stage 1
    std::map<std::string, std::vector<std::optional<double>>> skills;  // accuracy after every stage
    nlohmann::json changes = nlohmann::json::array();                  // of options, when it was resumed
  };

  // Rows trained with one optimizer and one schedule: a stage's all, or one of its groups.
  struct Phase {
    std::string name;           // empty: all rows of the stage
    std::vector<int64_t> rows;  // empty: all
    int64_t number = 0, samples = 0;
    int64_t first = 0, steps = 0;  // steps of the stage before it, and its own
    int64_t end() const { return first + steps; }
  };
  // What all processes know after a step.
  struct StepDone {
    double loss = 0;
    int stop = 0;  // the signal that one of them has heard
    bool save_due = false;
  };
  using Terms = std::map<std::string, torch::Tensor>;
  // This process's part of one forward pass, packed and mixed.
  struct TrainPass {
    SampleBatch batch;
    Share share;
    std::vector<int64_t> rows;
    int64_t micro = 0;   // its number in the step
    int64_t first = -1;  // of its samples among those of the step, where a term reaches over passes
  };

  void say_costs() const;
  void train_stage();
  void start_optimizer(const Phase& phase);
  StepDone train_step(const SampleSet& set, const Phase& phase);
  TrainPass make_pass(const SampleSet& set, const Phase& phase, int64_t micro, Part passes);
  void look_over_step(std::vector<TrainPass>& passes);
  bool reaches_over_passes() const;
  double train_pass(const TrainPass& pass, const SampleSet& set, Terms& terms);
  std::vector<int64_t> pass_rows(const Phase& phase, int64_t pass, Share& share) const;
  std::vector<int64_t> rows_of_step(const Phase& phase, Part passes) const;
  [[noreturn]] void diverged(const std::string& what, const SampleSet& set, const std::vector<int64_t>& rows) const;
  void complete_share(Share& share, SampleBatch& batch) const;
  AdapterDropout pass_dropout(const TrainPass& pass) const;
  torch::Tensor pass_loss(const TrainPass& pass, const SampleSet& set, Terms& terms);
  StepDone add_up(double loss, bool log_now, bool last_pass, Terms& terms);
  bool splits_batches() const;
  void finish_stage();
  void check_same_state();
  [[noreturn]] void stopped(const std::string& where, int signal_number);
  void evaluate();
  void evaluate_novel(size_t position, const StreamTask& task);
  void log_skills(const std::vector<AnalysedTask>& analysed);
  void write_memory(const std::string& folder);
  void write_results(bool complete);
  void save();
  void check_finite(const NamedTensors& tensors) const;
  void open_files();
  void start_log(const std::string& text);
  void restore(const Checkpoint& checkpoint);
  void restore_log(const nlohmann::json& state);
  void note_changes(const nlohmann::json& before);
  std::string log_path() const { return key_.folder + "/log.jsonl"; }
  void log(nlohmann::json line);
  void log_zero_shot();
  void start_event_log();
  std::vector<std::string> task_names() const;  // in the order trained
  int64_t answers_after(int stage) const;       // samples of the evaluation after a stage; 0: the zero-shot row
  double seconds_left() const;                  // of the whole run, as fast as it went so far; NaN: not known yet
  double mean_score() const;                    // of the newest row
  void say_scores() const;
  StepDone step_or_save(const SampleSet& set, const Phase& phase);
  void log_step(const Phase& phase, double loss, double rate, double norm, const Terms& terms);
  void write_kept_state();
  nlohmann::json state_json() const;
  NamedTensors state_tensors();

  int stages() const;
  const SampleSet& stage_data(bool reference);
  int64_t rows_a_step(int stage) const;
  std::vector<Phase> stage_phases(int stage) const;
  Needs needs() const;
  StageContext stage_context(const SampleSet& set, std::function<const StageMoments&()> moments);
  std::vector<torch::Tensor> trained_tensors();

  const RunConfig& config_;
  RunKey key_;
  Backbone& model_;
  Data& data_;
  const Team& team_;
  const Team alone_;           // for passes that one process runs as a whole
  std::vector<size_t> order_;  // tasks in the order trained
  std::vector<std::unique_ptr<Method>> methods_;
  NamedParameters parameters_;
  std::optional<AnswerHead> head_;
  PrototypeMemory analysis_memory_;  // measured for every method, for analysis; not part of any method's state
  std::optional<SampleSet> union_;   // of joint training
  Position at_;
  std::optional<AdamW> optimizer_;
  std::optional<Checkpoint> restored_;  // optimizer state waits here until the stage is set up again
  std::optional<Checksums> files_;      // process 0 writes through it
  int64_t log_bytes_ = 0, total_steps_ = 0;
  Sha256 log_hash_;         // of what was logged so far
  int64_t saved_step_ = 0;  // of the newest checkpoint, counted over all stages
  double last_save_ = 0, start_seconds_ = 0;
  bool training_ = false;      // now: `start_seconds_` counts
  int64_t answered_ = 0;       // samples, by this process in
  double answer_seconds_ = 0;  // so long
  std::optional<EventLog> events_;
};

}  // namespace asr
