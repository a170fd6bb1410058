// How the frozen weights of a language model are kept: as stored, in float8 for speed, in four bits for memory.
#pragma once

#include "backbones/backbone.h"
#include "ops/weight.h"

namespace asr {

// Before a model is loaded: a format that the device cannot compute in is an error.
void check_format(WeightFormat format, at::Device device);

// Once a model is on its device, before adapters come. Linears of the language model whose sizes the format does not
// take stay plain; returns how many it took.
int64_t keep_weights_in(Backbone& model, WeightFormat format);

}  // namespace asr
