// Dropout by key and place: each thread draws the bits of eight neighbouring entries, as the CPU does.
#include "ops/cuda_common.cuh"

namespace asr::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void drop_entries(Dropout of, int64_t groups, float kept) {
  using V = Vector<T>;
  constexpr int kParts = 8 / V::size > 0 ? 8 / V::size : 1;  // vectors of eight entries
  const int64_t group = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (group >= groups) return;
  const int64_t entry = group * 8, sample = entry / of.each;
  const int64_t place = of.positions ? of.positions[sample] * of.each + entry % of.each : entry;
  const uint64_t bits = mixed(of.key + static_cast<uint64_t>(place) * 0x9e3779b97f4a7c15ull);
  const T* x = static_cast<const T*>(of.x) + entry;
  T* y = static_cast<T*>(of.y) + entry;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    V v = load(x + part * V::size);
#pragma unroll
    for (int j = 0; j < V::size; ++j) {
      const bool dropped = (bits >> (8 * (part * V::size + j)) & 255) < of.threshold;
      v.at[j] = rounded<T>(dropped ? 0.0f : widened(v.at[j]) * kept);
    }
    store(y + part * V::size, v);
  }
}

}  // namespace

void keyed_dropout(const Dropout& of, Stream stream) {
  const int64_t groups = of.samples * of.each / 8;
  const float kept = 256.0f / static_cast<float>(256 - of.threshold);
  with_number(of.number, [&](auto number) {
    using T = decltype(number);
    drop_entries<T><<<blocks_for(groups, kThreads), kThreads, 0, as_stream(stream)>>>(of, groups, kept);
  });
  check_launch("dropout");
}

}  // namespace asr::cuda
