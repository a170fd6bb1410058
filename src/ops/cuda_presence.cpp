// Whether our CUDA kernels are in this program. Where they are not, their functions say so. A file of its own, for a
// test replaces it (tests/cuda_on_host).
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/error.h"
#include "ops/cuda_tensors.h"
#include "ops/descriptor_cuda.h"

namespace asr {

#ifdef ASR_CUDA_KERNELS

bool has_cuda_kernels() {
  return true;
}

bool cuda_kernels_take(at::Device device) {
  constexpr int kFirst = 80;  // compute capability: older cards have no products of bfloat16
  if (!device.is_cuda()) return false;
  static const bool able = cuda::compute_capability() >= kFirst;
  return able;
}

cuda::Stream stream_of(const torch::Tensor& x) {
  const c10::impl::VirtualGuardImpl device(x.device().type());
  return device.getStreamNativeHandle(device.getStream(x.device()));
}

#else

bool has_cuda_kernels() {
  return false;
}

bool cuda_kernels_take(at::Device) {
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
void masked_middles(const Rows&, const void*, const MaskedExperts&, Stream) {
  absent();
}
void add_masked_pulls(const Rows&, void*, const MaskedExperts&, Stream) {
  absent();
}
void masked_sums(const Rows&, const void*, const MaskedExperts&, float*, Stream) {
  absent();
}
int64_t masked_sum_room(const Rows&, const MaskedExperts&) {
  absent();
}
void quick_gelu_forward(Number, int64_t, const void*, void*, Stream) {
  absent();
}
void quick_gelu_backward(Number, int64_t, const GeluBackward&, Stream) {
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
