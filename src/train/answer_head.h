// The closed answer head: the state before the answer, scored against a fixed list of answers. A row starts as the mean
// embedding of its answer's tokens, so that the untrained head already follows the language model.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "backbones/backbone.h"

namespace asr {

class AnswerHead {
 public:
  AnswerHead(const Backbone& model, std::vector<std::string> answers);

  torch::Tensor logits(const torch::Tensor& state) const;                // [B, width] -> [B, answers]
  torch::Tensor targets(const std::vector<std::string>& answers) const;  // [B]; an unknown one is an error
  const std::string& answer(int64_t index) const { return answers_.at(static_cast<size_t>(index)); }
  torch::Tensor& weight() { return weight_; }  // trained with the adapters

 private:
  std::vector<std::string> answers_;
  std::map<std::string, int64_t> index_;
  torch::Tensor weight_;  // [answers, width]
};

}  // namespace asr
