// Which stage a sample is of, by its key: measured of a stage's data when that ends, kept as moments, asked for every
// answer. A key may have further parts that cost a whole pass of the base; they are measured of every stage, and looked
// at in answering once a stage has shown that the key without them does not tell stages apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "methods/method.h"
#include "methods/terms/sample_keys.h"
#include "methods/terms/stage_choice.h"

namespace asr {

// Part of a method, whose options and state these are.
class StageKeys {
 public:
  void visit(OptionVisitor& visitor);
  void check_parts() const;
  void prepare(Backbone& model, const Options& options);
  void state(StateVisitor& visitor);
  void add_kept(const StateSizes& sizes, std::vector<StateShape>& out) const;
  void add_costs(const CostContext& run, MethodCosts& out) const;

  int64_t stages() const { return choice_.stages(); }
  // The stage that ends here is known from now on. What a reader of the log should know of its keys is said, if
  // samples are to be chosen by them.
  void learn(StageContext& stage, bool chosen_by_keys);
  StageFit fit(const Backbone& model, const SampleBatch& batch);

 private:
  bool has_further() const { return !parts_.further.empty(); }
  bool looks_further() const { return further_since_ > 0; }
  // What answering looks at: the leading numbers of a whole key, or all of them.
  torch::Tensor looked_at(const torch::Tensor& keys) const;
  void look_further_if_needed(const StageContext& stage, const torch::Tensor& keys);
  void say_if_unlike(int stage, const torch::Tensor& keys);
  void check_description(const std::string& stored) const;

  KeyChoice parts_;
  StageChoice choice_;
  int64_t samples_ = 0;
  std::optional<SampleKeys> whole_, leading_;  // with and without the further parts
  int64_t leading_numbers_ = 0;                // of a key, without further parts; 0: no key was made yet
  int64_t further_since_ = 0;                  // the stage from which on further parts are looked at; 0: none
  std::string description_;                    // of the keys
};

}  // namespace asr
