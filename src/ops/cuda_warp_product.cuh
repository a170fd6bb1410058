// A product of small matrices by all lanes of a warp, on tensor cores.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace asr::cuda {

// Two 16-bit numbers a word.
struct WordsA {
  uint32_t at[4];
};
struct WordsB {
  uint32_t at[2];
};
// sum += a b by a whole warp: a [16, 16] and b [16, 8] of 16-bit numbers T, two a word, sum [16, 8]. Lane 4 g + t holds of
// a the rows g, g + 8, g, g + 8 at the columns 2t, 2t, 2t + 8, 2t + 8; of b the rows 2t and 2t + 8 of column g; of the
// sum the rows g, g, g + 8, g + 8 at the columns 2t, 2t + 1, 2t, 2t + 1.
template <class T>
__device__ inline void multiply_add(float (&sum)[4], const WordsA& a, const WordsB& b) {
  static_assert(std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>);
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b.at[0]), "r"(b.at[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b.at[0]), "r"(b.at[1]));
}

}  // namespace asr::cuda
