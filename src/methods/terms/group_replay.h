// Replay as VQACL has it: raw samples in equal shares of the stages seen and, within a stage, of its object groups;
// after every step one step more on a batch of them, of the group that is being trained. A stream without groups has
// one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/replay_buffer.h"
#include "methods/method.h"

namespace asr {

class GroupReplay {
 public:
  void visit(OptionVisitor& visitor);
  void prepare() { buffer_ = ReplayBuffer(keep_); }
  void open(const StageContext& stage);

  // What the next batch has in common with the step's own: how pictures are given, references, the group in hand.
  void note(const SampleBatch& batch);
  void note(const Phase& phase);
  // This process's part of as many samples as a pass has; false where nothing is kept yet, or too little for the pass.
  bool fill(OwnBatch& own, const Backbone& model, uint64_t key) const;

  void share_out(const StageContext& stage);
  const ReplayBuffer& buffer() const { return buffer_; }

  static std::vector<Assignment> recipe();  // of the code that this replay was published with, VL-T5's
  void state(StateVisitor& visitor) { buffer_.state(visitor); }
  static std::vector<StateShape> kept();
  MethodCosts costs(const CostContext& run) const;

 private:
  std::vector<int64_t> draw(int64_t wanted, uint64_t key) const;

  int64_t capacity_ = 5000;
  ReplayOptions keep_;
  ReplayBuffer buffer_;
  int64_t batch_size_ = 0;
  std::string group_;  // being trained; empty: all
  bool replays_ = true, features_ = false, references_ = false;
  std::optional<uint64_t> augmentation_;
};

}  // namespace asr
