#include "data/task.h"

namespace asr {

torch::Tensor Task::loss_of(const Backbone& model, const SampleBatch& batch, const Pass& pass) const {
  Want want;
  want.loss = false;
  ask_for_loss(want);
  return loss(model.forward(batch.input, pass, want), batch, {});
}

torch::Tensor Task::logits_of(const Backbone& model, const SampleBatch& batch, const Pass& pass,
                              const std::vector<torch::Tensor>& parameters) const {
  Want want;
  want.loss = false;
  ask_for_logits(want);
  return logits(model.forward(batch.input, pass, want), parameters);
}

}  // namespace asr
