// Single ranks of slots that have one expert a site: moved, dropped, begun anew, or all of them put aside for a pass.
#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "adapters/bank.h"

namespace asr {

struct RankPlace {
  std::string slot;
  int64_t first = 0;  // rank
};

// The listed ranks, counted from the first of `from`, to those from the first of `to` on.
void copy_ranks(AdapterBank& bank, const RankPlace& from, const RankPlace& to, const std::vector<int64_t>& ranks);
// These, in their order, become the first ranks of the slot; the others are zero.
void keep_ranks(AdapterBank& bank, const std::string& slot, const std::vector<int64_t>& ranks);
// As a slot begins: A random, B zero.
void renew_ranks(AdapterBank& bank, const std::string& slot, uint64_t key);

// Other factors in the place of the slots' own for as long as this lives, in the order of AdapterBank::tensors_of. For
// passes without gradient.
class OtherFactors {
 public:
  OtherFactors(AdapterBank& bank, const std::vector<std::string>& slots, const std::vector<torch::Tensor>& factors);
  ~OtherFactors();
  OtherFactors(const OtherFactors&) = delete;
  OtherFactors& operator=(const OtherFactors&) = delete;

 private:
  std::vector<std::pair<torch::Tensor*, torch::Tensor>> places_;  // with what stood there
};

}  // namespace asr
