#include "methods/terms/frozen_embeddings.h"

namespace asr {

FrozenEmbeddings frozen_embeddings(const Backbone& model, const SampleBatch& batch) {
  at::NoGradGuard no_grad;
  if (batch.reference_image.defined() && batch.reference_text.defined())
    return {batch.reference_image.to(at::kFloat), batch.reference_text.to(at::kFloat)};
  Want want;
  want.loss = false;
  want.pooled = true;
  const auto out = model.forward(batch.input, Pass{0, nullptr}, want);
  return {out.image.to(at::kFloat), out.text.to(at::kFloat)};
}

torch::Tensor cosines(const torch::Tensor& rows, const torch::Tensor& keys) {
  const auto unit = [](const torch::Tensor& t) { return t / t.norm(2, 1, true).clamp_min(1e-12); };
  return unit(rows).mm(unit(keys).t());
}

}  // namespace asr
