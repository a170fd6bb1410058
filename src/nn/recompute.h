// Gradient checkpointing: a part of a network runs without keeping what its backward needs; the backward runs it again.
// One more forward pass of that part buys the memory of its insides.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace asr {

// f(x), where f also reads `parameters` (those that may get a gradient). f must give the same numbers when run again.
std::vector<torch::Tensor> recompute(std::function<std::vector<torch::Tensor>(const torch::Tensor&)> f,
                                     const torch::Tensor& x, const std::vector<torch::Tensor>& parameters);

}  // namespace asr
