// A LoRA adapter put into the weights of its checkpoint (or taken out of them again), as a new Hugging Face folder that
// any program loads without adapters. Weights keep their names, types and files; memory holds one tensor at a time.
#pragma once

#include <cstdint>
#include <string>

namespace asr {

struct MergeRequest {
  std::string model, adapter, output;  // folders; the last must not exist or be empty
  bool unmerge = false;                // W - s B A instead of W + s B A
};

struct MergeResult {
  int64_t changed = 0, tensors = 0;  // weights of linears with an adapter, and all
  int64_t bytes = 0;                 // of weights
  int64_t files = 0;                 // all that were written
};

// The output appears whole or not at all: it is written beside its place and renamed.
MergeResult merge_adapter(const MergeRequest& request);

}  // namespace asr
