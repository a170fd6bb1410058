#include "ops/quick_gelu.h"

namespace asr {

torch::Tensor quick_gelu_reference(const torch::Tensor& x) {
  return x * (x * 1.702).sigmoid();
}

}  // namespace asr
