// The phases of a run's stages, as its options, its stream and its methods plan them: for the run itself, and for those
// who ask before a model is loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "methods/method.h"
#include "train/run_options.h"

namespace asr {

// What is planned. All of it is the caller's.
struct PlannedRun {
  const RunOptions& run;
  const Stream& stream;
  const std::vector<std::unique_ptr<Method>>& methods;
  const std::vector<std::string>& names;  // of the methods
  const std::vector<size_t>& order;       // of the tasks
  uint64_t seed = 0;
  bool closed_head = false;  // as in PhasePlan, like the two that follow
  int64_t layers = 0;
  std::function<void(const std::string&)> warn = {};

  bool joint() const { return methods[0]->joint(); }
  int stages() const { return joint() ? 1 : static_cast<int>(order.size()); }
  double replay_share(int stage) const;  // of all methods
  double rows_a_pass(int stage) const;   // of the stage's own samples, on average
};

// A method that cannot run as it is set throws here.
std::vector<Phase> stage_phases(const PlannedRun& planned, int stage);

// Plans every stage of a composition with no model at hand. What a method refuses is an error; what it warns of comes
// back. `layers` of the language model, where they are known; else 0.
std::vector<std::string> plan_warnings(const RunConfig& config, const std::string& composition, const Stream& stream,
                                       int64_t layers);

}  // namespace asr
