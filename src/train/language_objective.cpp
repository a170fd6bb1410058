#include "base/error.h"
#include "train/objectives.h"

namespace asr {
namespace {

// The mean of each sample's own answer tokens.
torch::Tensor sample_means(const torch::Tensor& token_losses, const torch::Tensor& labels) {
  const auto wanted = labels.ge(0);
  const auto owner = wanted.nonzero().select(1, 0);  // of each answer token, in order
  const auto sums = torch::zeros({labels.size(0)}, token_losses.options()).index_add(0, owner, token_losses);
  return sums / wanted.sum(1).clamp_min(1).to(token_losses.scalar_type());
}

class LanguageObjective final : public Objective {
 public:
  std::string head() const override { return "generate"; }
  void ask_for_loss(Want& want) const override { want.loss = true; }
  void ask_for_logits(Want& want) const override { want.logits = true; }

  torch::Tensor loss(const Output& output, const SampleBatch& batch, const torch::Tensor& weights) const override {
    if (!weights.defined()) return output.loss;
    const auto each = at::cross_entropy_loss(output.logits, targets(batch), {}, at::Reduction::None);
    return (sample_means(each, batch.input.labels) * weights).mean();
  }

  torch::Tensor logits(const Output& output, const std::vector<torch::Tensor>&) const override { return output.logits; }

  int64_t learnt(const SampleBatch& batch) const override { return batch.input.labels.ge(0).sum().item<int64_t>(); }

  std::vector<std::string> answers(const Backbone& model, const Batch& batch, const Pass& pass,
                                   int64_t longest) const override {
    std::vector<std::string> out;
    for (const auto& ids : model.generate(batch, pass, longest)) out.push_back(model.tokenizer().decode_answer(ids));
    return out;
  }
};

}  // namespace

std::unique_ptr<Objective> language_objective() {
  return std::make_unique<LanguageObjective>();
}

}  // namespace asr
