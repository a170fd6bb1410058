#include "backbones/pass_parts.h"

#include <limits>

#include "base/error.h"

namespace asr {

torch::Tensor rows_to_tap(const Batch& batch, TapRows rows) {
  if (rows == TapRows::question) return batch.question;
  const auto answer = batch.labels.ge(0);
  return rows == TapRows::answer ? answer : answer.logical_or(batch.question);
}

torch::Tensor max_tokens(const torch::Tensor& x, const torch::Tensor& mask) {
  if (!mask.defined()) return x.amax(1);
  const auto hidden = mask.logical_not().unsqueeze(-1);
  const auto largest = x.masked_fill(hidden, -std::numeric_limits<float>::infinity()).amax(1);
  return largest.masked_fill(mask.any(1).logical_not().unsqueeze(-1), 0);
}

torch::Tensor prompt_state(const torch::Tensor& hidden, const Batch& batch) {
  const auto last = batch.mask.logical_and(batch.labels.lt(0)).sum(1, true) - 1;  // [B, 1]
  return hidden.gather(1, last.unsqueeze(-1).expand({-1, 1, hidden.size(2)})).squeeze(1);
}

Pass vision_pass(const Pass& pass, const torch::Tensor& row_samples) {
  auto out = pass;
  out.latch = nullptr;
  out.row_samples = row_samples;
  return out;
}

bool needs_last_layer(const Want& want) {
  return want.loss || want.logits || want.all_logits || want.state || want.tap_layers > 0;
}

void check_early_layer(const Want& want, int64_t depth) {
  check(want.early_layer >= 0 && want.early_layer <= depth, "there are no states after layer ", want.early_layer,
        ": the language model has ", depth, " layers; choose a lower one");
}

bool needs_decoder(const Want& want) {
  return needs_last_layer(want) || want.pooled || want.states || want.early_layer > 0;
}

}  // namespace asr
