#include "ops/stack_rows.h"

namespace asr {

torch::Tensor stack_rows_reference(const std::vector<torch::Tensor>& layers, int64_t height, int64_t width) {
  const auto all = torch::stack(layers, 1);
  return all.view({all.size(0), all.size(1), all.size(2), all.size(3), height, width});
}

}  // namespace asr
