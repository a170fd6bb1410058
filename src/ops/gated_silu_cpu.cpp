#include <ATen/Parallel.h>

#include "ops/gated_silu.h"
#include "ops/layer_kernels.h"
#include "tensor/record.h"

namespace asr {

torch::Tensor gated_silu_cpu(const torch::Tensor& gate, const torch::Tensor& up) {
  const bool with_grad = needs_gradient({gate, up});
  at::NoGradGuard no_grad;
  const auto g = gate.detach().contiguous(), u = up.detach().contiguous();
  const auto out = torch::empty(g.sizes(), g.options());
  const float *from = g.data_ptr<float>(), *factor = u.data_ptr<float>();
  float* to = out.data_ptr<float>();
  at::parallel_for(0, g.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
    layer_kernels().row.gate_forward(from + begin, factor + begin, end - begin, to + begin);
  });
  if (with_grad)
    record("fused gate", {gate, up}, {out},
           [g, u](const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
             const auto grad = grads[0].contiguous();
             const auto to_g = torch::empty(grad.sizes(), grad.options()),
                        to_u = torch::empty(grad.sizes(), grad.options());
             const float *gates = g.data_ptr<float>(), *ups = u.data_ptr<float>(), *pull = grad.data_ptr<float>();
             float *gate_grad = to_g.data_ptr<float>(), *up_grad = to_u.data_ptr<float>();
             at::parallel_for(0, grad.numel(), rows_per_task(1), [&](int64_t begin, int64_t end) {
               const kernel::GateBackward of{
                   .gate = gates + begin,
                   .up = ups + begin,
                   .grad = pull + begin,
                   .grad_gate = gate_grad + begin,
                   .grad_up = up_grad + begin,
               };
               layer_kernels().row.gate_backward(of, end - begin);
             });
             return {to_g, to_u};
           });
  return out;
}

}  // namespace asr
