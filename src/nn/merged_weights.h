// Experts added to copies of the weights, for passes that change nothing and weigh every row alike: answering without
// a gate, or the rows of one slot. A product then costs what the base's costs. Nothing of the model is touched: the
// copies go with the pass that names them, and every other pass reads what it read before.
#pragma once

#include "nn/linear.h"

namespace asr {

// Whether the experts that take part at this map have one weight for all rows: no router, nothing given a sample.
bool weighs_rows_alike(const Linear& linear, const Pass& pass);

// For the sites whose experts take part and weigh all rows alike; the others are left to their experts. Sums are made
// in float32 at least and rounded to the weight's own type. Of a pass without gradients.
MergedWeights merged_weights(const std::vector<AdapterSite>& sites, const Pass& pass);

}  // namespace asr
