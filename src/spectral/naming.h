// How well spectra tell groups of samples (stages, skills) apart: Gaussian moments of some of the samples name the
// group of the others (docs/maths.md, "The premise").
#pragma once

#include <cstdint>
#include <vector>

namespace asr {

struct Naming {
  double accuracy = 0, chance = 0;  // 0..1; chance: of the largest group
  int64_t tested = 0;               // 0: fewer than two groups have four samples, and nothing was named
};

// A mean for each group, one covariance for all, dimensions divided by their total deviation, ridge 1e-3: the group of
// the nearest mean, by squared Mahalanobis distance. Every fourth sample of a group is tested, the others are fitted.
// With `parts` every sample is cut into as many stretches of equal length, whose distances are added: correlations
// between stretches are not looked at.
Naming naming_accuracy(const std::vector<std::vector<double>>& samples, const std::vector<int64_t>& group,
                       int64_t parts = 1);

}  // namespace asr
