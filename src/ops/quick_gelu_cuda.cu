// x * sigmoid(1.702 x) and its gradient from x alone, one pass over memory each.
#include "ops/cuda_common.cuh"

namespace asr::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float gate_of(float x) {
  return 1 / (1 + expf(-1.702f * x));
}

template <class T>
__global__ void forward_gelu(const T* x, T* y, int64_t pieces) {
  using V = Vector<T>;
  const int64_t piece = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= pieces) return;
  V v = load(x + piece * V::size);
#pragma unroll
  for (int j = 0; j < V::size; ++j) {
    const float value = widened(v.at[j]);
    v.at[j] = rounded<T>(value * gate_of(value));
  }
  store(y + piece * V::size, v);
}

template <class T>
__global__ void backward_gelu(GeluBackward of, int64_t pieces) {
  using V = Vector<T>;
  const int64_t piece = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= pieces) return;
  const int64_t at = piece * V::size;
  V v = load(static_cast<const T*>(of.x) + at);
  const V pull = load(static_cast<const T*>(of.grad) + at);
#pragma unroll
  for (int j = 0; j < V::size; ++j) {
    const float value = widened(v.at[j]), s = gate_of(value);
    v.at[j] = rounded<T>(widened(pull.at[j]) * s * (1 + 1.702f * value * (1 - s)));
  }
  store(static_cast<T*>(of.dx) + at, v);
}

}  // namespace

void quick_gelu_forward(Number number, int64_t count, const void* x, void* y, Stream stream) {
  with_number(number, [&](auto like) {
    using T = decltype(like);
    const int64_t pieces = count / Vector<T>::size;
    forward_gelu<T><<<blocks_for(pieces, kThreads), kThreads, 0, as_stream(stream)>>>(static_cast<const T*>(x),
                                                                                      static_cast<T*>(y), pieces);
  });
  check_launch("quick GELU");
}

void quick_gelu_backward(Number number, int64_t count, const GeluBackward& of, Stream stream) {
  with_number(number, [&](auto like) {
    using T = decltype(like);
    const int64_t pieces = count / Vector<T>::size;
    backward_gelu<T><<<blocks_for(pieces, kThreads), kThreads, 0, as_stream(stream)>>>(of, pieces);
  });
  check_launch("gradient of quick GELU");
}

}  // namespace asr::cuda
