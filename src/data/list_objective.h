// An objective whose answers are chosen from a list, by one state of the model for a sample and a logit for every
// answer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/objective.h"

namespace asr {

class ListObjective : public Objective {
 public:
  explicit ListObjective(std::vector<std::string> list);

  std::string head() const override { return "answers"; }
  void ask_for_loss(Want& want) const override { want.state = true; }
  void ask_for_logits(Want& want) const override { want.state = true; }
  int64_t learnt(const SampleBatch& batch) const override { return batch.size(); }
  torch::Tensor owners(const SampleBatch& batch) const override;
  std::vector<std::string> answers(const Backbone& model, const Batch& batch, const Pass& pass,
                                   int64_t longest) const override;

  int64_t size() const { return static_cast<int64_t>(list_.size()); }
  int64_t place_of(const std::string& answer) const;  // -1: not in the list

 protected:
  torch::Tensor mean_embeddings(const Backbone& model) const;  // of the answers' tokens, [list, width] float32

 private:
  std::vector<std::string> list_;
  std::map<std::string, int64_t> places_;
};

}  // namespace asr
