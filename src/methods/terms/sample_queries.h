// A sample's query: the mean embedding of its question's tokens and a state of the vision tower, each of length 1, side
// by side. The language model is not run for it, and no adapter takes part.
#pragma once

#include <torch/types.h>

#include "backbones/backbone.h"
#include "base/options.h"
#include "data/sample_set.h"
#include "parallel/team.h"

namespace asr {

enum class QueryPicture { first, mean };
template <>
struct EnumNames<QueryPicture> {
  static constexpr const char* names[] = {"first", "mean"};
};

struct SampleQueries {
  QueryPicture picture = QueryPicture::first;  // of the tower's last states
  int64_t text_width = 0;                      // of the text part

  torch::Tensor of(const Backbone& model, const SampleBatch& batch) const;  // [B, both]
  // Over all samples, in blocks that the processes share out: [1, both] on the model's device.
  torch::Tensor mean_of(const Backbone& model, const SampleSet& set, const Team& team) const;
  // Both parts of each row brought to length 1.
  torch::Tensor normalised(const torch::Tensor& rows) const;
};

}  // namespace asr
