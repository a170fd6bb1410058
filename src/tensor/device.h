// The device that a user names, and what depends on it alone. Which implementation of an operator serves a tensor is
// another question: ops/dispatch.h.
#pragma once

#include <torch/types.h>

#include <string>

namespace asr {

at::Device device_named(const std::string& name);  // "cpu" or "cuda"; fails where the latter is missing

// Products in fewer bits where the hardware has them (TF32): for trainings whose bits are promised to nobody.
void allow_fast_products(at::Device device);

// What models are measured in there.
at::ScalarType usual_type(at::Device device);

// What numbers stored like these are computed in: on the CPU bfloat16 and half are for storage alone, since products of
// them are many times slower than in float32.
at::ScalarType compute_type(const torch::Tensor& stored);

}  // namespace asr
