#include "ops/stack_rows.h"

#include "ops/dispatch.h"

namespace asr {

torch::Tensor stack_rows(const std::vector<torch::Tensor>& layers, int64_t height, int64_t width) {
  constexpr Kernels kernels{kSingle, {}};
  bool kernel = true;
  for (const auto& layer : layers) {
    check(layer.size(3) == height * width, "rows of ", layer.size(3), " columns are no grid of ", height, "x", width);
    kernel = kernel && path_for(kernels, layer) == Path::cpu && layer.is_contiguous();
  }
  return (kernel ? stack_rows_cpu : stack_rows_reference)(layers, height, width);
}

}  // namespace asr
