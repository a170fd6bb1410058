#include "base/error.h"
#include "ops/token_weights.h"

namespace asr {

torch::Tensor token_weights_reference(const torch::Tensor& functional, const torch::Tensor& valid) {
  for (const auto* mask : {&functional, &valid})
    check(!mask->is_floating_point() || mask->isnan().any().item<bool>() == false,
          "a token mask holds NaN; use 0 and 1");
  const auto usable = valid.ne(0);
  const auto chosen = functional.ne(0).logical_and(usable);
  const auto fallback = chosen.any(1, /*keepdim=*/true).logical_not().logical_and(usable);
  const auto mask = chosen.logical_or(fallback).to(at::kDouble);
  const auto count = mask.sum(1, /*keepdim=*/true);
  const auto empty = count.eq(0).flatten().nonzero();
  check(empty.numel() == 0, "sample ", empty.numel() ? empty[0].item<int64_t>() : 0,
        " has no valid token; every sample needs at least one");
  return mask / count;
}

}  // namespace asr
