// A run on disk, resumable to the bit: where it stands, its adapters, the optimizer, and what its methods keep.
#pragma once

#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/recorder.h"
#include "train/run_parts.h"

namespace asr {

class RunCheckpoint {
 public:
  RunCheckpoint(RunParts& parts, Loop& loop, Recorder& recorder) : parts_(parts), loop_(loop), recorder_(recorder) {}

  void save();
  bool due() const;  // by the clock
  // Everything but the optimizer, whose moments wait until its phase goes on.
  void restore(Checkpoint checkpoint);
  const Checkpoint* waiting() const { return waiting_ ? &*waiting_ : nullptr; }
  void forget_waiting() { waiting_.reset(); }
  void start_clock();

  NamedTensors tensors();  // all that is saved

 private:
  nlohmann::json state() const;
  void check_finite(const NamedTensors& tensors) const;
  void restore_adapters(const Checkpoint& checkpoint);
  void note_changes(const nlohmann::json& before);

  RunParts& parts_;
  Loop& loop_;
  Recorder& recorder_;
  std::optional<Checkpoint> waiting_;
  double last_save_ = 0;
};

}  // namespace asr
