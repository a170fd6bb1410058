#include "ops/attention.h"

#include "ops/dispatch.h"

namespace asr {
namespace {

Path attention_path(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return path_for(Kernels{kSingle, has_library_attention() ? kUpToSingle : Types{}}, q, k, v);
}

}  // namespace

torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& key_mask, bool causal) {
  switch (attention_path(q, k, v)) {
    case Path::cpu:
      return attend_cpu(q, k, v, key_mask, causal);
    case Path::library:
      return attend_library(q, k, v, key_mask, causal);
    case Path::cuda:
    case Path::reference:
      break;
  }
  return attend_reference(q, k, v, key_mask, causal);
}

bool masks_cost_time(const torch::Tensor& key_mask) {
  constexpr Kernels library{{}, {at::kBool}};
  return has_library_attention() && path_for(library, key_mask) == Path::library;
}

bool attends_with_rows(const AttentionHeads& heads) {
  return attention_path(heads.q, heads.k, heads.v) == Path::cpu;
}

}  // namespace asr
