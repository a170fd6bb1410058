// Whether a run fits into a GPU, said before its model is loaded.
#pragma once

#include <string>

#include "streams/stream.h"
#include "train/estimate.h"

namespace asr {

// What is wrong, with the batch that would fit; empty: nothing. Estimates may be too large, so a run is refused only
// where 85 % of its estimate are more than `free` bytes.
std::string memory_problem(const RunConfig& config, const ModelShape& shape, const Workload& work,
                           const Machine& machine, double free);

// Fails with that line where the run's GPU has too little memory free. Elsewhere it looks at nothing.
void check_device_memory(const RunConfig& config, const Stream& stream, const std::string& model, int64_t processes);

}  // namespace asr
