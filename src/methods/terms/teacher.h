// The adapter as the previous stage left it, as a teacher on the shared base: a frozen slot, and the task's parameters
// of that time where it has any.
#pragma once

#include <string>
#include <vector>

#include "methods/method.h"

namespace asr {

class PreviousAdapter {
 public:
  explicit PreviousAdapter(std::string method) : method_(std::move(method)), slot_(method_ + ".teacher") {}

  // A projector that is trained whole is in no adapter.
  void check_possible(const PhasePlan& stage) const;
  void take(StageContext& stage);  // when a stage is over

  bool there(const AdapterBank& bank) const { return bank.has(slot_); }
  Pass pass(const AdapterBank& bank) const;
  const std::vector<torch::Tensor>& head() const { return head_; }

  void state(StateVisitor& visitor);
  static std::vector<StateShape> kept();

 private:
  std::string method_, slot_;
  std::vector<torch::Tensor> head_;
};

}  // namespace asr
