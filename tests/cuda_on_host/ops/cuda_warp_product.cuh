// Stands in for src/ops/cuda_warp_product.cuh: the same product from what the lanes hold, in plain sums.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>

namespace asr::cuda {

struct WordsA {
  uint32_t at[4];
};
struct WordsB {
  uint32_t at[2];
};

// The number of 16 bits that is the lower or the upper half of a word.
template <class T>
float half_of(uint32_t word, unsigned upper) {
  const auto bits = static_cast<uint16_t>(word >> (16 * upper));
  T number;
  std::memcpy(&number, &bits, sizeof bits);
  return static_cast<float>(number);
}

template <class T>
void multiply_add(float (&sum)[4], const WordsA& a, const WordsB& b) {
  using Words = std::array<uint32_t, 6>;
  const Words mine = {a.at[0], a.at[1], a.at[2], a.at[3], b.at[0], b.at[1]};
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const auto found = cuda_on_host::exchange(mine, [&](const auto& of) {
    std::array<float, 4> out{};
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = g + i / 2 * 8, column = 2 * t + i % 2;
      for (unsigned k = 0; k < 16; ++k) {
        const Words left = of(row % 8 * 4 + k % 8 / 2), right = of(column * 4 + k % 8 / 2);
        out[i] += half_of<T>(left[row / 8 + k / 8 * 2], k % 2) * half_of<T>(right[4 + k / 8], k % 2);
      }
    }
    return out;
  });
  for (unsigned i = 0; i < 4; ++i) sum[i] += found[i];
}

}  // namespace asr::cuda
