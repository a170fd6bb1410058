#include "base/error.h"
#include "base/text.h"
#include "data/list_objective.h"
#include "train/objectives.h"

namespace asr {
namespace {

class ClosedObjective final : public ListObjective {
 public:
  ClosedObjective(const Backbone& model, std::vector<std::string> answers) : ListObjective(std::move(answers)) {
    check(size() > 0, "head=answers: the stream has no answers to choose from");
    weight_ = mean_embeddings(model).to(model.token_embedding().scalar_type()).requires_grad_();
  }

  torch::Tensor loss(const Output& output, const SampleBatch& batch, const torch::Tensor& weights) const override {
    const auto right = targets(batch);
    if (!weights.defined()) return at::cross_entropy_loss(logits(output, {}), right);
    const auto each = at::cross_entropy_loss(logits(output, {}), right, {}, at::Reduction::None);
    return (each * weights).mean();
  }

  torch::Tensor logits(const Output& output, const std::vector<torch::Tensor>& parameters) const override {
    return at::linear(output.state, parameters.empty() ? weight_ : parameters[0]);
  }
  torch::Tensor targets(const SampleBatch& batch) const override {
    std::vector<int64_t> out;
    for (const auto& sample : batch.info) {
      const int64_t place = place_of(sample.answer);
      check(place >= 0, "answer '", printable(sample.answer), "' is not among the ", size(),
            " of the closed head; use head=generate");
      out.push_back(place);
    }
    return torch::tensor(out, at::kLong).to(weight_.device());
  }

  NamedParameters parameters() const override { return {{"answer_head.weight", weight_}}; }

 private:
  torch::Tensor weight_;  // [answers, width]
};

}  // namespace

std::unique_ptr<Objective> closed_objective(const Backbone& model, std::vector<std::string> answers) {
  return std::make_unique<ClosedObjective>(model, std::move(answers));
}

}  // namespace asr
