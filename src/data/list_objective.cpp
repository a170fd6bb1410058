#include "data/list_objective.h"

namespace asr {

ListObjective::ListObjective(std::vector<std::string> list) : list_(std::move(list)) {
  for (const auto& answer : list_) places_.emplace(answer, static_cast<int64_t>(places_.size()));
}

int64_t ListObjective::place_of(const std::string& answer) const {
  const auto found = places_.find(answer);
  return found == places_.end() ? -1 : found->second;
}

torch::Tensor ListObjective::owners(const SampleBatch& batch) const {
  return at::arange(batch.size(), at::device(batch.input.ids.device()).dtype(at::kLong));
}

std::vector<std::string> ListObjective::answers(const Backbone& model, const Batch& batch, const Pass& pass,
                                                int64_t) const {
  at::NoGradGuard no_grad;
  Want want;
  want.loss = false;
  ask_for_logits(want);
  const auto best = logits(model.forward(batch, pass, want)).argmax(1).cpu();
  std::vector<std::string> out;
  for (int64_t i = 0; i < best.numel(); ++i) out.push_back(list_[static_cast<size_t>(best[i].item<int64_t>())]);
  return out;
}

torch::Tensor ListObjective::mean_embeddings(const Backbone& model) const {
  at::NoGradGuard no_grad;
  std::vector<torch::Tensor> rows;
  for (const auto& answer : list_) {
    std::vector<int64_t> ids;
    for (const auto& token : model.tokenizer().encode(answer)) ids.push_back(token.id);
    const auto index = torch::tensor(ids, at::kLong).to(model.device());
    rows.push_back(model.token_embedding().index_select(0, index).to(at::kFloat).mean(0));
  }
  return at::stack(rows);
}

}  // namespace asr
