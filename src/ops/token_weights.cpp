#include "ops/token_weights.h"

#include "ops/dispatch.h"
#include "tensor/tensor_io.h"

namespace asr {
namespace {

constexpr Kernels kMasks{{at::kBool}, {}}, kPositions{{at::kLong}, {}};

}  // namespace

torch::Tensor token_weights(const torch::Tensor& functional, const torch::Tensor& valid) {
  check(functional.dim() == 2 && functional.sizes() == valid.sizes(), "functional ", shape_text(functional.sizes()),
        " and valid ", shape_text(valid.sizes()), " must both be [B, T]");
  const bool kernel = path_for(kMasks, functional, valid) == Path::cpu;
  return kernel ? token_weights_cpu(functional, valid) : token_weights_reference(functional, valid);
}

torch::Tensor token_weights_at(const torch::Tensor& functional, const torch::Tensor& rows) {
  check(
      rows.dim() == 2 && rows.scalar_type() == at::kLong && functional.dim() == 2 && functional.size(0) == rows.size(0),
      "functional ", shape_text(functional.sizes()), " and rows ", shape_text(rows.sizes()),
      " must be [B, N] and [B, T] of int64");
  const bool kernel = path_for(kMasks, functional) == Path::cpu && path_for(kPositions, rows) == Path::cpu;
  return kernel ? token_weights_at_cpu(functional, rows)
                : token_weights(functional.gather(1, rows.clamp_min(0)), rows.ge(0));
}

}  // namespace asr
