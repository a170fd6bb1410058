#include "ops/gated_silu.h"

namespace asr {

torch::Tensor gated_silu_reference(const torch::Tensor& gate, const torch::Tensor& up) {
  return at::silu(gate) * up;
}

}  // namespace asr
