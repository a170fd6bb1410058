#include <map>

#include "base/error.h"
#include "base/text.h"
#include "train/tasks.h"

namespace asr {
namespace {

class ClosedTask final : public Task {
 public:
  ClosedTask(const Backbone& model, std::vector<std::string> answers) : answers_(std::move(answers)) {
    check(!answers_.empty(), "head=answers: the stream has no answers to choose from");
    at::NoGradGuard no_grad;
    std::vector<torch::Tensor> rows;
    for (const auto& answer : answers_) {
      index_.emplace(answer, static_cast<int64_t>(index_.size()));
      std::vector<int64_t> ids;
      for (const auto& token : model.tokenizer().encode(answer)) ids.push_back(token.id);
      rows.push_back(model.token_embedding().index_select(0, torch::tensor(ids, at::kLong).to(model.device())).mean(0));
    }
    weight_ = at::stack(rows).clone().requires_grad_();
  }

  void ask_for_loss(Want& want) const override { want.state = true; }
  void ask_for_logits(Want& want) const override { want.state = true; }

  torch::Tensor loss(const Output& output, const SampleBatch& batch, const torch::Tensor& weights) const override {
    const auto right = targets(batch);
    if (!weights.defined()) return at::cross_entropy_loss(logits(output, {}), right);
    const auto each = at::cross_entropy_loss(logits(output, {}), right, {}, at::Reduction::None);
    return (each * weights).mean();
  }

  torch::Tensor logits(const Output& output, const std::vector<torch::Tensor>& parameters) const override {
    return at::linear(output.state, parameters.empty() ? weight_ : parameters[0]);
  }
  int64_t learnt(const SampleBatch& batch) const override { return batch.input.size(); }
  torch::Tensor targets(const SampleBatch& batch) const override {
    std::vector<int64_t> out;
    for (const auto& sample : batch.info) {
      const auto place = index_.find(sample.answer);
      check(place != index_.end(), "answer '", printable(sample.answer), "' is not among the ", answers_.size(),
            " of the closed head; use head=generate");
      out.push_back(place->second);
    }
    return torch::tensor(out, at::kLong).to(weight_.device());
  }

  std::vector<std::string> answers(const Backbone& model, const Batch& batch, const Pass& pass,
                                   int64_t) const override {
    at::NoGradGuard no_grad;
    Want want;
    want.loss = false;
    want.state = true;
    const auto best = logits(model.forward(batch, pass, want), {}).argmax(1).cpu();
    std::vector<std::string> out;
    for (int64_t i = 0; i < best.numel(); ++i) out.push_back(answers_[static_cast<size_t>(best[i].item<int64_t>())]);
    return out;
  }

  NamedParameters parameters() const override { return {{"answer_head.weight", weight_}}; }

 private:
  std::vector<std::string> answers_;
  std::map<std::string, int64_t> index_;
  torch::Tensor weight_;  // [answers, width]
};

}  // namespace

std::unique_ptr<Task> closed_task(const Backbone& model, std::vector<std::string> answers) {
  return std::make_unique<ClosedTask>(model, std::move(answers));
}

}  // namespace asr
