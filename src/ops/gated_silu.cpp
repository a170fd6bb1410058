#include "ops/gated_silu.h"

#include "ops/dispatch.h"

namespace asr {

torch::Tensor gated_silu(const torch::Tensor& gate, const torch::Tensor& up) {
  constexpr Kernels kernels{kSingle, {}, kUpToSingle};
  const auto path = gate.sizes() == up.sizes() ? path_for(kernels, gate, up) : Path::reference;
  if (path == Path::cpu) return gated_silu_cpu(gate, up);
  const bool whole = gate.numel() * static_cast<int64_t>(gate.element_size()) % 16 == 0;
  return path == Path::cuda && whole ? gated_silu_cuda(gate, up) : gated_silu_reference(gate, up);
}

}  // namespace asr
