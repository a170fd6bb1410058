// Moments of one stage: per skill, over the samples whose posterior exceeds tau_skill, the count, mean and unbiased
// variance of descriptors and the mean angular spectrum (paper, "Per-stage moments"). Exact and mergeable.
#pragma once

#include <torch/types.h>

#include <map>
#include <vector>

#include "spectral/exact_sum.h"
#include "spectral/options.h"

namespace asr {

struct SkillMoments {
  int64_t count = 0;
  std::vector<double> mean, variance, angular, map;  // map only for asr.spectrum=raw
};

class StageMoments {
 public:
  explicit StageMoments(const Options& options) : options_(options) {}

  // descriptor [N, D], angular [N, M], posterior [N, S]; map [N, H, W], the mean over layer-heads, if raw maps are
  // matched. `task` is the index of the stage, the key of asr.prototypes=task.
  void add(const torch::Tensor& descriptor, const torch::Tensor& angular, const torch::Tensor& posterior,
           const torch::Tensor& map, int64_t task);
  void merge(const StageMoments& other);

  // All that was added, as integers that another process can merge. What is no such list is an error.
  std::vector<int64_t> state() const;
  void merge_state(const std::vector<int64_t>& state);

  std::map<int64_t, SkillMoments> result() const;  // by skill (or 0 for global, or the task)
  int64_t map_height = 0, map_width = 0;           // of the maps added, if any

 private:
  struct Sums {
    int64_t count = 0;
    std::vector<ExactSum> values, squares, angular, map;
  };
  std::vector<int64_t> keys_of(const double* posterior, int64_t skills, int64_t task) const;

  Options options_;
  std::map<int64_t, Sums> sums_;
};

}  // namespace asr
