// Experts added into a weight for good: what MergedExperts does for a while, and `asr merge` writes to files.
#pragma once

#include "nn/linear.h"

namespace asr {

// The weight with `sign` times its experts added, computed in float32 at least and rounded to the weight's own type.
torch::Tensor merged_weight(const Linear& linear, double sign = 1);

}  // namespace asr
