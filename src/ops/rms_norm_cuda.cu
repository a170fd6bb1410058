// RMS norm of rows, with the sum before it: one block a row, which it reads once.
#include "ops/cuda_common.cuh"

namespace asr::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void forward_rows(NormForward of, int width) {
  using V = Vector<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  T* row = reinterpret_cast<T*>(memory);
  const int64_t begin = int64_t(blockIdx.x) * width;
  const T* x = static_cast<const T*>(of.x) + begin;
  const T* added = of.added ? static_cast<const T*>(of.added) + begin : nullptr;
  T* sum = of.sum ? static_cast<T*>(of.sum) + begin : nullptr;
  float squares = 0;
  for (int i = threadIdx.x * V::size; i < width; i += kThreads * V::size) {
    V v = load(x + i);
    if (added) {
      const V more = load(added + i);
#pragma unroll
      for (int j = 0; j < V::size; ++j) v.at[j] = rounded<T>(widened(v.at[j]) + widened(more.at[j]));
      store(sum + i, v);
    }
    store(row + i, v);
#pragma unroll
    for (int j = 0; j < V::size; ++j) squares += widened(v.at[j]) * widened(v.at[j]);
  }
  const float inverse = rsqrtf(block_sum(squares) / width + of.eps);
  if (threadIdx.x == 0) of.inverse[blockIdx.x] = inverse;
  const T* weight = static_cast<const T*>(of.weight);
  T* y = static_cast<T*>(of.y) + begin;
  // A thread reads back what it wrote itself.
  for (int i = threadIdx.x * V::size; i < width; i += kThreads * V::size) {
    V v = load(row + i);
    const V w = load(weight + i);
#pragma unroll
    for (int j = 0; j < V::size; ++j)  // rounded before the weight, as transformers has it
      v.at[j] = rounded<T>(widened(rounded<T>(widened(v.at[j]) * inverse)) * widened(w.at[j]));
    store(y + i, v);
  }
}

template <class T>
__global__ void backward_rows(NormBackward of, int width) {
  using V = Vector<T>;
  const int64_t begin = int64_t(blockIdx.x) * width;
  const T* sum = static_cast<const T*>(of.sum) + begin;
  const T* grad = static_cast<const T*>(of.grad) + begin;
  const T* carried = of.carried ? static_cast<const T*>(of.carried) + begin : nullptr;
  const T* weight = static_cast<const T*>(of.weight);
  const float inverse = of.inverse[blockIdx.x];
  float product = 0;
  for (int i = threadIdx.x * V::size; i < width; i += kThreads * V::size) {
    const V s = load(sum + i), g = load(grad + i), w = load(weight + i);
#pragma unroll
    for (int j = 0; j < V::size; ++j) product += widened(g.at[j]) * widened(w.at[j]) * widened(s.at[j]);
  }
  // Of x / |x|: what points along x itself does not change it.
  const float along = block_sum(product) * inverse * inverse / width;
  T* dx = static_cast<T*>(of.dx) + begin;
  for (int i = threadIdx.x * V::size; i < width; i += kThreads * V::size) {
    const V s = load(sum + i), g = load(grad + i), w = load(weight + i);
    V more;
    if (carried) more = load(carried + i);
    V out;
#pragma unroll
    for (int j = 0; j < V::size; ++j) {
      float value = inverse * (widened(g.at[j]) * widened(w.at[j]) - widened(s.at[j]) * along);
      if (carried) value += widened(more.at[j]);
      out.at[j] = rounded<T>(value);
    }
    store(dx + i, out);
  }
}

}  // namespace

void rms_norm_forward(const Rows& rows, const NormForward& of, Stream stream) {
  with_number(rows.number, [&](auto number) {
    using T = decltype(number);
    forward_rows<T><<<static_cast<unsigned>(rows.count), kThreads, rows.width * sizeof(T), as_stream(stream)>>>(
        of, static_cast<int>(rows.width));
  });
  check_launch("RMS norm");
}

void rms_norm_backward(const Rows& rows, const NormBackward& of, Stream stream) {
  with_number(rows.number, [&](auto number) {
    using T = decltype(number);
    backward_rows<T>
        <<<static_cast<unsigned>(rows.count), kThreads, 0, as_stream(stream)>>>(of, static_cast<int>(rows.width));
  });
  check_launch("gradient of RMS norm");
}

}  // namespace asr::cuda
