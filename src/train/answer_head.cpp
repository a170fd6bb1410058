#include "train/answer_head.h"

#include "base/error.h"
#include "base/text.h"

namespace asr {

AnswerHead::AnswerHead(const Backbone& model, std::vector<std::string> answers) : answers_(std::move(answers)) {
  check(!answers_.empty(), "head=answers: the stream has no answers to choose from");
  at::NoGradGuard no_grad;
  std::vector<torch::Tensor> rows;
  for (const auto& answer : answers_) {
    index_.emplace(answer, static_cast<int64_t>(index_.size()));
    std::vector<int64_t> ids;
    for (const auto& token : model.tokenizer().encode(answer)) ids.push_back(token.id);
    rows.push_back(model.token_embedding().index_select(0, torch::tensor(ids, at::kLong).to(model.device())).mean(0));
  }
  weight_ = at::stack(rows).clone();
}

torch::Tensor AnswerHead::logits(const torch::Tensor& state) const {
  return at::linear(state, weight_);
}

torch::Tensor AnswerHead::targets(const std::vector<std::string>& answers) const {
  std::vector<int64_t> out;
  for (const auto& answer : answers) {
    const auto place = index_.find(answer);
    check(place != index_.end(), "answer '", printable(answer), "' is not among the ", answers_.size(),
          " of the closed head; use head=generate");
    out.push_back(place->second);
  }
  return torch::tensor(out, at::kLong).to(weight_.device());
}

}  // namespace asr
