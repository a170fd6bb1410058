#include "ops/cuda_tensors.h"
#include "ops/weight.h"
#include "tensor/torch_version.h"

namespace asr {

torch::Tensor unpacked_nf4_cuda(const Weight& weight, at::ScalarType type) {
  const auto out = torch::empty({weight.rows(), weight.columns()}, weight.scale.options().dtype(type));
  const cuda::PackedNf4 from{.data = weight.data.data_ptr<uint8_t>(), .scale = weight.scale.data_ptr<float>()};
  cuda::unpack_nf4(number_of(out), out.numel(), from, out.data_ptr(), stream_of(out));
  return out;
}

#if ASR_FLOAT8
Fp8Rows fp8_rows_cuda(const torch::Tensor& x) {
  const Fp8Rows out{torch::empty(x.sizes(), x.options().dtype(at::kFloat8_e4m3fn).requires_grad(false)),
                    torch::empty({x.size(0), 1}, x.options().dtype(at::kFloat).requires_grad(false))};
  cuda::fp8_rows({x.size(0), x.size(1), number_of(x)}, x.data_ptr(), out.data.data_ptr(), out.scale.data_ptr<float>(),
                 stream_of(x));
  return out;
}
#endif

}  // namespace asr
