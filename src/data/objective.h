// What is learnt: a loss, logits and answers of a model's output. Training, distillation, Fisher information, replay
// and evaluation ask it alike, and none of them knows whether answers are generated or chosen from a list.
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "backbones/backbone.h"
#include "data/sample_batch.h"

namespace asr {

class Objective {
 public:
  virtual ~Objective() = default;

  virtual std::string head() const = 0;  // how answers are given, as the option `head` calls it: generate or answers
  // Adds what its loss, or its logits alone, need of a pass.
  virtual void ask_for_loss(Want& want) const = 0;
  virtual void ask_for_logits(Want& want) const = 0;
  // The mean over what is learnt (answer tokens, samples). With `weights` [B]: the mean over samples of their weight
  // times their own mean.
  virtual torch::Tensor loss(const Output& output, const SampleBatch& batch, const torch::Tensor& weights) const = 0;
  // [what is learnt, choices]; by its own parameters, or by these: an earlier copy of them.
  virtual torch::Tensor logits(const Output& output, const std::vector<torch::Tensor>& parameters = {}) const = 0;
  virtual int64_t learnt(const SampleBatch& batch) const = 0;  // how many the loss is a mean of
  // The right choice of each of them, in the order of the logits; unless an objective says otherwise, the answer
  // tokens.
  virtual torch::Tensor targets(const SampleBatch& batch) const;
  virtual torch::Tensor owners(const SampleBatch& batch) const;  // the sample of each, in the same order
  virtual std::vector<std::string> answers(const Backbone& model, const Batch& batch, const Pass& pass,
                                           int64_t longest) const = 0;
  virtual NamedParameters parameters() const { return {}; }  // trained with the adapters

  // A pass of its own, for those who have no output yet.
  torch::Tensor loss_of(const Backbone& model, const SampleBatch& batch, const Pass& pass) const;
  torch::Tensor logits_of(const Backbone& model, const SampleBatch& batch, const Pass& pass,
                          const std::vector<torch::Tensor>& parameters = {}) const;
};

// Which slot answers a row, where a method chooses one.
struct RouteChoice {
  std::string slot;  // empty: the base
  double probability = 1;
  std::vector<std::pair<std::string, double>> slots = {};  // why: probabilities of all; empty: the method has none
};

// How a batch is to be answered: the slots that take part and the weights that a method gave their experts.
struct RoutedPass {
  Pass how;
  GivenWeights given = {};
  std::vector<RouteChoice> choices = {};  // of every row; empty: nobody chose
  torch::Tensor inserted = {};            // [B, n, width] after the visual tokens; undefined: nothing
  Pass pass() const {                     // points into this object
    auto out = how;
    out.given = given.empty() ? nullptr : &given;
    return out;
  }
  // The batch as this pass reads it.
  SampleBatch seen(SampleBatch batch) const {
    if (inserted.defined()) batch.input.inserted = inserted;
    return batch;
  }
};
using PassFor = std::function<RoutedPass(const SampleBatch&)>;

}  // namespace asr
