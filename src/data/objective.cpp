#include "data/objective.h"

namespace asr {

torch::Tensor Objective::loss_of(const Backbone& model, const SampleBatch& batch, const Pass& pass) const {
  Want want;
  want.loss = false;
  ask_for_loss(want);
  return loss(model.forward(batch.input, pass, want), batch, {});
}

torch::Tensor Objective::targets(const SampleBatch& batch) const {
  const auto labels = batch.input.labels.flatten();
  return labels.index_select(0, labels.ge(0).nonzero().flatten());
}

torch::Tensor Objective::owners(const SampleBatch& batch) const {
  return batch.input.labels.ge(0).nonzero().select(1, 0);
}

torch::Tensor Objective::logits_of(const Backbone& model, const SampleBatch& batch, const Pass& pass,
                                   const std::vector<torch::Tensor>& parameters) const {
  Want want;
  want.loss = false;
  ask_for_logits(want);
  return logits(model.forward(batch.input, pass, want), parameters);
}

}  // namespace asr
