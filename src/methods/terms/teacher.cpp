#include "methods/terms/teacher.h"

#include "base/error.h"

namespace asr {

void PreviousAdapter::check_possible(const PhasePlan& stage) const {
  check(!stage.whole_projector, method_,
        "'s teacher is an adapter alone, and this run trains the projector whole; set projector=adapter or frozen");
}

void PreviousAdapter::take(StageContext& stage) {
  stage.bank.copy(kTrainedSlot, slot_);
  head_.clear();
  for (const auto& [name, tensor] : stage.objective.parameters()) head_.push_back(tensor.detach().clone());
}

Pass PreviousAdapter::pass(const AdapterBank& bank) const {
  Pass out;
  out.slots = bank.bit(slot_);
  return out;
}

void PreviousAdapter::state(StateVisitor& visitor) {
  int64_t count = static_cast<int64_t>(head_.size());
  visitor.number("count", StateKind::statistics, count);
  head_.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < head_.size(); ++i) visitor.tensor(cat("head.", i), StateKind::teacher, head_[i]);
}

std::vector<StateShape> PreviousAdapter::kept() {
  return {{"count", StateKind::statistics, {1}}, {"head.*", StateKind::teacher, {kAnySize, kAnySize}}};
}

}  // namespace asr
