#include "ops/gated_silu.h"

#include "ops/dispatch.h"

namespace asr {

torch::Tensor gated_silu(const torch::Tensor& gate, const torch::Tensor& up) {
  constexpr Kernels kernels{kSingle, {}};
  const bool kernel = path_for(kernels, gate, up) == Path::cpu && gate.sizes() == up.sizes();
  return kernel ? gated_silu_cpu(gate, up) : gated_silu_reference(gate, up);
}

}  // namespace asr
