#include "ops/cuda_tensors.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/error.h"
#include "ops/descriptor_cuda.h"

namespace asr {

cuda::Number number_of(const torch::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return cuda::Number::single;
    case at::kHalf:
      return cuda::Number::half;
    case at::kBFloat16:
      return cuda::Number::bfloat16;
    default:
      fail("CUDA kernels take float32, half and bfloat16, not ", at::toString(x.scalar_type()));
  }
}

bool in_vectors(const torch::Tensor& x, int64_t row) {
  return x.is_contiguous() && row * static_cast<int64_t>(x.element_size()) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
}

#ifdef ASR_CUDA_KERNELS

bool has_cuda_kernels() {
  return true;
}

cuda::Stream stream_of(const torch::Tensor& x) {
  const c10::impl::VirtualGuardImpl device(x.device().type());
  return device.getStreamNativeHandle(device.getStream(x.device()));
}

#else

bool has_cuda_kernels() {
  return false;
}

cuda::Stream stream_of(const torch::Tensor&) {
  fail("this program was built without CUDA kernels");
}

namespace cuda {
namespace {
[[noreturn]] void absent() {
  fail("this program was built without CUDA kernels");
}
}  // namespace

void rms_norm_forward(const Rows&, const NormForward&, Stream) {
  absent();
}
void rms_norm_backward(const Rows&, const NormBackward&, Stream) {
  absent();
}
void rotate(const Rotation&, Stream) {
  absent();
}
void gated_silu_forward(Number, int64_t, const GateForward&, Stream) {
  absent();
}
void gated_silu_backward(Number, int64_t, const GateBackward&, Stream) {
  absent();
}
void keyed_dropout(const Dropout&, Stream) {
  absent();
}
int compute_capability() {
  return 0;
}
void fp8_rows(const Rows&, const void*, void*, float*, Stream) {
  absent();
}
void unpack_nf4(Number, int64_t, const PackedNf4&, void*, Stream) {
  absent();
}
void add_masked_pulls(const Rows&, const MaskedPulls&, Stream) {
  absent();
}
void spectrum_forward(const SpectrumTables&, const SpectrumShape&, const SpectrumForward&, Stream) {
  absent();
}
void spectrum_backward(const SpectrumTables&, const SpectrumShape&, const SpectrumBackward&, Stream) {
  absent();
}
int64_t spectrum_room(const SpectrumTables&, int) {
  absent();
}
void spectral_loss(const LossShape&, const LossArrays&, Stream) {
  absent();
}

}  // namespace cuda

#endif

}  // namespace asr
