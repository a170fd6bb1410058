// Rotary positions: each thread turns 16 bytes of the first half of a head with those of its second half.
#include "ops/cuda_common.cuh"

namespace asr::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void turn_heads(Rotation of, int64_t items) {
  using V = Vector<T>;
  const int64_t item = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= items) return;
  const int half = static_cast<int>(of.width / 2), pieces = half / V::size;
  const int at = static_cast<int>(item % pieces) * V::size;
  const int64_t head = item / pieces % of.heads;
  const int64_t token = item / pieces / of.heads % of.tokens;
  const int64_t sample = item / pieces / of.heads / of.tokens;
  const T* x =
      static_cast<const T*>(of.x) + sample * of.batch_stride + token * of.token_stride + head * of.head_stride + at;
  const int64_t angle = sample * of.table_stride + token * half + at;
  const V a = load(x), b = load(x + half);
  const V cosine = load(static_cast<const T*>(of.cosine) + angle), sine = load(static_cast<const T*>(of.sine) + angle);
  V first, second;
#pragma unroll
  for (int j = 0; j < V::size; ++j) {
    const float c = widened(cosine.at[j]), s = of.direction * widened(sine.at[j]);
    first.at[j] = rounded<T>(widened(a.at[j]) * c - widened(b.at[j]) * s);
    second.at[j] = rounded<T>(widened(b.at[j]) * c + widened(a.at[j]) * s);
  }
  T* y = static_cast<T*>(of.y) + ((sample * of.tokens + token) * of.heads + head) * of.width + at;
  store(y, first);
  store(y + half, second);
}

}  // namespace

void rotate(const Rotation& of, Stream stream) {
  with_number(of.number, [&](auto number) {
    using T = decltype(number);
    const int64_t items = of.batch * of.tokens * of.heads * (of.width / 2 / Vector<T>::size);
    turn_heads<T><<<blocks_for(items, kThreads), kThreads, 0, as_stream(stream)>>>(of, items);
  });
  check_launch("rotary positions");
}

}  // namespace asr::cuda
