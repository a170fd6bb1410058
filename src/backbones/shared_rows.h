// Rows of a batch that ask about the same pictures: what these rows have in common is computed once. A row goes on from
// its group's prefix, the tokens up to where the questions part, with the keys and values that were made of it.
#pragma once

#include <cstdint>
#include <vector>

#include "backbones/backbone.h"

namespace asr {

struct RowGroups {
  std::vector<int64_t> leads;  // the first row of each group, in order
  std::vector<int64_t> group;  // of every row: the place of its lead in `leads`
  bool shared() const { return leads.size() < group.size(); }
};

// Rows with one Batch::same_picture, whose experts are weighed alike; every row for itself where nothing may be shared:
// no row knows its like, gradients are recorded, or the vision path reads the question.
RowGroups groups_of(const Batch& batch, const Pass& pass);

// How prompts, right-aligned as ids and mask [B, longest], part into prefixes, one a group, and what is left of every
// row. A prefix holds all image tokens of its rows and leaves them at least one token.
struct SharedPrefix {
  torch::Tensor ids, mask;    // [groups, P], right-aligned
  torch::Tensor suffix_mask;  // [B, S]: of the last S columns; the others are in the prefix
  int64_t suffix() const { return suffix_mask.size(1); }
};
// None, with undefined tensors, where that would not save a token.
SharedPrefix shared_prefix(const torch::Tensor& ids, const torch::Tensor& mask, const RowGroups& groups,
                           int64_t image_token);

}  // namespace asr
