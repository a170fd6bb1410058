// silu(gate) * up, and its gradient from gate and up alone.
#include "ops/cuda_common.cuh"

namespace asr::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

template <class T>
__global__ void forward_gate(GateForward of, int64_t pieces) {
  using V = Vector<T>;
  const int64_t piece = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= pieces) return;
  const int64_t at = piece * V::size;
  const V g = load(static_cast<const T*>(of.gate) + at), u = load(static_cast<const T*>(of.up) + at);
  V out;
#pragma unroll
  for (int j = 0; j < V::size; ++j) {
    const float x = widened(g.at[j]);
    out.at[j] = rounded<T>(x * sigmoid(x) * widened(u.at[j]));
  }
  store(static_cast<T*>(of.y) + at, out);
}

template <class T>
__global__ void backward_gate(GateBackward of, int64_t pieces) {
  using V = Vector<T>;
  const int64_t piece = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= pieces) return;
  const int64_t at = piece * V::size;
  const V g = load(static_cast<const T*>(of.gate) + at), u = load(static_cast<const T*>(of.up) + at),
          pull = load(static_cast<const T*>(of.grad) + at);
  V to_gate, to_up;
#pragma unroll
  for (int j = 0; j < V::size; ++j) {
    const float x = widened(g.at[j]), s = sigmoid(x), d = widened(pull.at[j]);
    to_gate.at[j] = rounded<T>(d * widened(u.at[j]) * s * (1 + x * (1 - s)));
    to_up.at[j] = rounded<T>(d * x * s);
  }
  store(static_cast<T*>(of.to_gate) + at, to_gate);
  store(static_cast<T*>(of.to_up) + at, to_up);
}

}  // namespace

void gated_silu_forward(Number number, int64_t count, const GateForward& of, Stream stream) {
  with_number(number, [&](auto like) {
    using T = decltype(like);
    const int64_t pieces = count / Vector<T>::size;
    forward_gate<T><<<blocks_for(pieces, kThreads), kThreads, 0, as_stream(stream)>>>(of, pieces);
  });
  check_launch("gated SiLU");
}

void gated_silu_backward(Number number, int64_t count, const GateBackward& of, Stream stream) {
  with_number(number, [&](auto like) {
    using T = decltype(like);
    const int64_t pieces = count / Vector<T>::size;
    backward_gate<T><<<blocks_for(pieces, kThreads), kThreads, 0, as_stream(stream)>>>(of, pieces);
  });
  check_launch("gradient of gated SiLU");
}

}  // namespace asr::cuda
