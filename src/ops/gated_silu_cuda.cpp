#include "ops/cuda_tensors.h"
#include "ops/gated_silu.h"
#include "tensor/record.h"

namespace asr {

torch::Tensor gated_silu_cuda(const torch::Tensor& gate, const torch::Tensor& up) {
  const bool with_grad = needs_gradient({gate, up});
  at::NoGradGuard no_grad;
  const auto g = aligned(gate.detach()), u = aligned(up.detach());
  const auto out = torch::empty(g.sizes(), g.options());
  const cuda::GateForward forward{.gate = g.data_ptr(), .up = u.data_ptr(), .y = out.data_ptr()};
  cuda::gated_silu_forward(number_of(g), g.numel(), forward, stream_of(g));
  if (with_grad)
    record(
        "the gate", {gate, up}, {out}, [g, u](const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
          const auto pull = aligned(grads[0]);
          const auto to_gate = torch::empty(g.sizes(), g.options()), to_up = torch::empty(g.sizes(), g.options());
          cuda::gated_silu_backward(number_of(g), g.numel(),
                                    {g.data_ptr(), u.data_ptr(), pull.data_ptr(), to_gate.data_ptr(), to_up.data_ptr()},
                                    stream_of(g));
          return {to_gate, to_up};
        });
  return out;
}

}  // namespace asr
