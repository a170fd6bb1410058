#include "ops/cuda_tensors.h"
#include "ops/quick_gelu.h"
#include "tensor/record.h"

namespace asr {

torch::Tensor quick_gelu_cuda(const torch::Tensor& x) {
  const bool with_grad = needs_gradient({x});
  at::NoGradGuard no_grad;
  const auto from = aligned(x.detach());
  const auto out = torch::empty(from.sizes(), from.options());
  cuda::quick_gelu_forward(number_of(from), from.numel(), from.data_ptr(), out.data_ptr(), stream_of(from));
  if (with_grad)
    record("quick GELU", {x}, {out}, [from](const std::vector<torch::Tensor>& grads) -> std::vector<torch::Tensor> {
      const auto pull = aligned(grads[0]);
      const auto dx = torch::empty(from.sizes(), from.options());
      cuda::quick_gelu_backward(number_of(from), from.numel(), {from.data_ptr(), pull.data_ptr(), dx.data_ptr()},
                                stream_of(from));
      return {dx};
    });
  return out;
}

}  // namespace asr
