// A run on disk, resumable to the bit: where it stands, its adapters, the optimizer, and what its methods keep.
#pragma once

#include "train/checkpoint.h"
#include "train/kept_state.h"
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
  // `apart`: what kept.safetensors holds, so that the next checkpoint can share it.
  void restore(Checkpoint checkpoint, const NamedTensors& apart);
  const Checkpoint* waiting() const { return waiting_ ? &*waiting_ : nullptr; }
  void forget_waiting() { waiting_.reset(); }
  void start_clock();

  NamedTensors tensors();  // all that is saved

 private:
  // What kept.safetensors holds of an item. The storage is only watched: a buffer that was replaced goes, and what
  // comes to lie in its place is not taken for it.
  struct Written {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const void* data = nullptr;
    std::vector<int64_t> sizes;
    at::ScalarType type = at::kFloat;
    int64_t version = 0;
    size_t bytes = 0;
    std::string sha256;
  };

  NamedTensors moving() const;  // what changes with every step
  static Written written(const HeldItem& item);
  bool is_written(const HeldItem& item);
  KeptPart kept_part(NamedTensors& changing);
  nlohmann::json state() const;
  void check_finite(const NamedTensors& tensors) const;
  void restore_adapters(const Checkpoint& checkpoint);
  void note_changes(const nlohmann::json& before);

  RunParts& parts_;
  Loop& loop_;
  Recorder& recorder_;
  std::optional<Checkpoint> waiting_;
  double last_save_ = 0;
  std::map<std::string, Written> written_;
  std::optional<int64_t> written_at_;  // a checkpoint whose kept.safetensors holds them
};

}  // namespace asr
