// The experts that take part in a pass at one linear map, as pairs of products: one for all that are weighed, one for
// those that are fused.
#pragma once

#include "nn/linear.h"
#include "ops/adapted_linear.h"

namespace asr {

// Without a gate and with one expert: that expert's own tensors, so that nothing is copied.
std::vector<LowRank> active_experts(const Linear& linear, const torch::Tensor& x, const Pass& pass);

// Whether a gate of a slot that takes part weighs its experts by the whole sequence.
bool reads_sequence(const Linear& linear, const Pass& pass);

// The same sum, expert by expert: what tests compare with.
torch::Tensor experts_reference(const Linear& linear, const torch::Tensor& x, const Pass& pass);

}  // namespace asr
