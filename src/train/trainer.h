// One run from its first stage to its last (the paper's Algorithm 1): phases of steps, what methods do after a stage,
// evaluation, checkpoints. See methods/method.h for what a method may do in it.
#pragma once

#include <functional>

#include "train/loop.h"
#include "train/recorder.h"
#include "train/run_checkpoint.h"
#include "train/run_parts.h"

namespace asr {

class Trainer {
 public:
  // `model` is the base; the run adds its adapters and takes them away again.
  // Every process of the team makes the same calls; its first one writes the files.
  Trainer(const RunConfig& config, const RunKey& key, Backbone& model, Data& data, const Team& team);

  // Trains, evaluates and writes everything of a run's folder. With `resume`, goes on from the newest checkpoint.
  // `ready` is called when nothing can be refused any more.
  void run(bool resume, const std::function<void()>& ready = {});

  int64_t steps() const { return recorder_.total_steps; }  // of all stages
  int64_t trained_numbers() const;

 private:
  void say_costs() const;
  void resume_run();
  void train_stage();
  void train_phase(const SampleSet& set, const Phase& phase, class Progress* progress);
  Loop::Done step_or_save(const SampleSet& set, const Phase& phase);
  void finish_stage();
  void check_same_state();
  void say_communication() const;
  [[noreturn]] void stopped(const std::string& where, int signal_number);

  RunParts parts_;
  Loop loop_;
  Recorder recorder_;
  RunCheckpoint checkpoint_;
  double waited_ = 0;         // seconds for sums of gradients, since this start
  int64_t summed_bytes_ = 0;  // of gradients a step; 0 in one process
};

}  // namespace asr
