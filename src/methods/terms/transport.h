// Entropic optimal transport between two sets of equal weights, by Sinkhorn's iteration in the log domain. Gradients
// flow through all of its iterations.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace asr {

struct SinkhornOptions {
  double epsilon = 1;        // weight of the entropy
  int64_t iterations = 200;  // at most
  double stop = 0.1;         // when the row potentials move by less in all
};

// <plan, cost> of costs [N, M] with weights 1/N and 1/M; the plan is the last iteration's.
torch::Tensor transport_cost(const torch::Tensor& cost, const SinkhornOptions& options);

}  // namespace asr
