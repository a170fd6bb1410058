// The stage that a key comes from, by the moments of every stage's keys; or no stage, where it lies farther from all of
// them than their own samples do.
#pragma once

#include <map>
#include <optional>

#include "base/options.h"
#include "methods/terms/key_moments.h"
#include "tensor/state.h"

namespace asr {

// What the stages are to the rows of a batch, [B, stages] in double.
struct StageFit {
  torch::Tensor weights;        // how much each stage counts; rows of zeros fit none
  torch::Tensor probabilities;  // of having come from it
};

// Part of a method, whose options and state these are.
class StageChoice {
 public:
  void visit(OptionVisitor& visitor);
  void state(StateVisitor& visitor, bool with_leading);  // whether keys may be looked at in part

  int64_t stages() const { return kept_.stages(); }
  double fallback() const { return fallback_; }
  // Of a new stage, [samples, D], which may be looked at whole or in their leading numbers. Where keys may be too far,
  // a tenth of them, drawn by `draw`, says how far that is; false: too few to say.
  bool add(const torch::Tensor& keys, const KeyGroups& groups, uint64_t draw, int64_t leading);
  // Of a tenth of the keys of a stage to be added, by moments of the others: how many are named rightly by so many
  // leading numbers. Nothing where a tenth is none.
  std::optional<double> named(const torch::Tensor& keys, const KeyGroups& groups, uint64_t draw, int64_t numbers) const;
  // Keys, or their leading numbers.
  StageFit of(const torch::Tensor& keys, const KeyGroups& groups);

 private:
  const KeyReading& reading(int64_t numbers);
  torch::Tensor among_the_best(const torch::Tensor& scores) const;
  torch::Tensor reached(const torch::Tensor& distances, int64_t numbers);

  int64_t top_ = 1;
  double ridge_ = 1e-3, temperature_ = 1, fallback_ = 0;
  KeyCovariance covariance_ = KeyCovariance::full;
  StageKeyMoments kept_;
  std::map<int64_t, KeyReading> readings_;  // of kept_, by the numbers that are looked at, when first needed
};

}  // namespace asr
