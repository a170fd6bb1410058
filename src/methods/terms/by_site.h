// Tensors that a method keeps of every linear it adapts.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>

#include "tensor/state.h"

namespace asr {

using TensorsBySite = std::map<std::string, torch::Tensor>;

// The names of the linears as "sites", and each tensor as "<what>.<site>".
void visit_by_site(StateVisitor& visitor, const std::string& what, TensorsBySite& tensors);

}  // namespace asr
