// The steps of a phase: batches, passes, the weighted sum of losses, gradients over processes, clipping, the optimizer.
// Every random choice is keyed by (seed, stage, step), so that a run resumed from any checkpoint continues to the same
// bits. Where several processes train together, passes of an accumulated step are dealt out whole if they come out
// even, and every pass is split otherwise; in both cases the gradients add up to that of one process with the whole
// step.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/adamw.h"
#include "train/checkpoint.h"
#include "train/gradient_sum.h"
#include "train/run_parts.h"

namespace asr {

class Loop {
 public:
  explicit Loop(RunParts& parts) : parts_(parts) {}

  using Terms = std::map<std::string, torch::Tensor>;
  // What all processes know after a step.
  struct Done {
    double loss = 0, rate = 0, norm = 0;
    double waited = 0;  // seconds for the sum of gradients, after this process had its own; 0 in one process
    int stop = 0;       // the signal that one of them has heard
    bool save_due = false;
    Terms terms;  // for the log; empty where it is not due
  };

  // The optimizer of a phase: new, or with the moments that a checkpoint holds.
  void start(const Phase& phase, const Checkpoint* restored);
  void stop();
  int64_t summed_bytes() const { return sum_ ? sum_->bytes() : 0; }  // over the processes, a step
  const AdamW* optimizer() const { return optimizer_ ? &*optimizer_ : nullptr; }

  // One step; `save_wanted`: process 0 wants to save, for reasons of time.
  Done step(const SampleSet& set, const Phase& phase, bool save_wanted);
  int64_t saved_step = 0;  // of the newest checkpoint, for messages

 private:
  // This process's part of one forward pass, packed and mixed.
  struct TrainPass {
    SampleBatch batch;
    Share share;
    std::vector<int64_t> rows;
    int64_t micro = 0;   // its number in the step
    bool last = false;   // of this process's in the step
    int64_t first = -1;  // of its samples among those of the step, where a term reaches over passes
  };

  bool splits_batches() const;
  bool reaches_over_passes() const;
  std::vector<int64_t> pass_rows(const Phase& phase, int64_t pass, Share& share) const;
  std::vector<int64_t> rows_of_step(const Phase& phase, Part passes) const;
  TrainPass make_pass(const SampleSet& set, const Phase& phase, int64_t micro, Part passes);
  void mix(TrainPass& pass, uint64_t key);
  void complete_share(Share& share, SampleBatch& batch) const;
  AdapterDropout pass_dropout(const TrainPass& pass) const;
  void look_over_step(std::vector<TrainPass>& passes);
  torch::Tensor sample_weights(const SampleBatch& batch) const;
  torch::Tensor pass_loss(const TrainPass& pass, const Phase& phase, Terms& terms);
  // A loss whose gradient is on its way, and the samples it is of. Its value is looked at with the gradient's norm, so
  // that the host waits for a GPU once a step.
  using Names = std::function<std::string()>;  // put together only for a message
  struct OpenLoss {
    torch::Tensor value;
    Names names;
  };
  struct Applied {
    double loss = 0, norm = 0;  // the loss: this process's summand
    double waited = 0;
  };
  OpenLoss train_pass(const TrainPass& pass, const SampleSet& set, const Phase& phase, Terms& terms);
  Applied apply_gradients(const Phase& phase, const std::vector<OpenLoss>& losses, const Names& names);
  void extra_steps(const Phase& phase);
  double rate_of(const Phase& phase, double peak) const;
  Done add_up(double loss, bool log_now, bool last_pass, bool save_wanted, Terms& terms);
  [[noreturn]] void diverged(const std::string& what, const std::string& names) const;

  RunParts& parts_;
  const Team alone_;  // for passes that one process runs as a whole
  std::optional<AdamW> optimizer_;
  NamedParameters trained_;
  std::optional<GradientSum> sum_;  // over the processes, where there are several
};

}  // namespace asr
