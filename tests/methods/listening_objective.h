// An objective that another one stands behind, for tests that must know what a method asks of it.
#pragma once

#include <memory>

#include "data/objective.h"

namespace asr {

// Asks another objective, and remembers what it was asked, and which losses it has made of which samples.
class ListeningObjective final : public Objective {
 public:
  explicit ListeningObjective(std::unique_ptr<Objective> objective) : objective_(std::move(objective)) {}
  std::string head() const override { return objective_->head(); }
  void ask_for_loss(Want& want) const override { objective_->ask_for_loss(want); }
  void ask_for_logits(Want& want) const override { objective_->ask_for_logits(want); }
  torch::Tensor loss(const Output& o, const SampleBatch& b, const torch::Tensor& w) const override {
    learnt_from.insert(learnt_from.end(), b.info.begin(), b.info.end());
    auto made = objective_->loss(o, b, w);
    losses.push_back(made.item<double>());
    return made;
  }
  torch::Tensor logits(const Output& output, const std::vector<torch::Tensor>& parameters) const override {
    return objective_->logits(output, parameters);
  }
  int64_t learnt(const SampleBatch& batch) const override { return objective_->learnt(batch); }
  std::vector<std::string> answers(const Backbone& model, const Batch& batch, const Pass& pass,
                                   int64_t longest) const override {
    asked.push_back(batch);
    limits.push_back(longest);
    said = objective_->answers(model, batch, pass, longest);
    return said;
  }
  NamedParameters parameters() const override { return objective_->parameters(); }

  mutable std::vector<Batch> asked;
  mutable std::vector<int64_t> limits;  // tokens of an answer, each time
  mutable std::vector<std::string> said;
  mutable std::vector<SampleInfo> learnt_from;
  mutable std::vector<double> losses;

 private:
  std::unique_ptr<Objective> objective_;
};

// Puts one before the objective that stands there.
inline const ListeningObjective& listen_to(std::unique_ptr<Objective>& objective) {
  auto listening = std::make_unique<ListeningObjective>(std::move(objective));
  const auto& heard = *listening;
  objective = std::move(listening);
  return heard;
}

}  // namespace asr
