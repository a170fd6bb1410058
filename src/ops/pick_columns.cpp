#include "ops/pick_columns.h"

#include "ops/dispatch.h"

namespace asr {

torch::Tensor pick_columns(const torch::Tensor& x, const torch::Tensor& columns) {
  constexpr Kernels kernels{kSingle, {}};
  return path_for(kernels, x) == Path::cpu ? pick_columns_cpu(x, columns) : pick_columns_reference(x, columns);
}

}  // namespace asr
