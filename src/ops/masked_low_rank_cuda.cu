// Low-rank maps behind a dropout: the products of x with A, and both of their gradients, by tensor cores. Masks are
// drawn where they are needed, so nothing of x's size is written but the gradient of x itself. A lane reads eight
// neighbouring numbers at a time, which share the bits of one hash; the order of columns in a product of 16 x 16 x 8 is
// chosen so that they are its own.
#include "ops/cuda_common.cuh"
#include "ops/cuda_warp_product.cuh"

namespace asr::cuda {
namespace {

constexpr int kGroup = 8;  // neighbouring numbers of a row: 16 bytes, one hash

// What one lane is in a product of a warp: 4 * g + t.
struct Lane {
  int g = static_cast<int>(threadIdx.x % 32 / 4), t = static_cast<int>(threadIdx.x % 4);
};

struct Places {
  const int64_t* positions;
  int each, width;  // rows of a sample
  // Of the first entry of a row in the whole batch.
  __device__ int64_t of_row(int row) const {
    return (positions ? positions[row / each] * each + row % each : row) * int64_t(width);
  }
};

Places places_of(const Rows& rows, const MaskedExperts& of) {
  return {of.positions, static_cast<int>(rows.count / of.samples), static_cast<int>(rows.width)};
}

__device__ inline uint64_t bits_of(const MaskedExpert& expert, int64_t place) {
  return mixed(expert.key + static_cast<uint64_t>(place) * 0x9e3779b97f4a7c15ull);
}

__device__ inline float kept_share(const MaskedExpert& expert) {
  return 256.0f / static_cast<float>(256 - expert.threshold);
}

// Eight 16-bit numbers as four words, those that the bits drop set to 0.
struct Masked {
  uint32_t word[4];
};
__device__ inline Masked masked(const uint4& x, uint64_t bits, uint32_t threshold) {
  const uint32_t every = threshold * 0x01010101u;
  const uint32_t low = __vcmpgeu4(static_cast<uint32_t>(bits), every),
                 high = __vcmpgeu4(static_cast<uint32_t>(bits >> 32), every);
  return {{x.x & __byte_perm(low, 0, 0x1100), x.y & __byte_perm(low, 0, 0x3322), x.z & __byte_perm(high, 0, 0x1100),
           x.w & __byte_perm(high, 0, 0x3322)}};
}

__device__ inline uint4 load_group(const void* from, int64_t number) {
  return *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(from) + number);
}
__device__ inline uint32_t load_pair(const void* from, int64_t number) {
  return *reinterpret_cast<const uint32_t*>(static_cast<const uint16_t*>(from) + number);
}
__device__ inline uint32_t two_of(const void* from, int64_t first, int64_t second) {
  const auto* numbers = static_cast<const uint16_t*>(from);
  return numbers[first] | static_cast<uint32_t>(numbers[second]) << 16;
}

// ---- x dropped times A^T -------------------------------------------------------------------------------------------

constexpr int kMiddleWarps = 8, kMiddleRows = 32, kMiddleColumns = 32;  // of a block; of a block; at a time of a warp

// A block makes 32 rows, its warps share the columns.
template <class T, int kRank, int kCount>
__global__ void __launch_bounds__(kMiddleWarps * 32, 3)
    middles(MaskedExperts of, const void* x, int rows, Places places) {
  constexpr int kTiles = kRank / 8, kOut = kCount * kMiddleRows * kRank;
  __shared__ float parts[kMiddleWarps][kOut];
  const Lane lane;
  const int warp = static_cast<int>(threadIdx.x / 32), first = static_cast<int>(blockIdx.x) * kMiddleRows;
  int64_t place[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) place[i] = places.of_row(min(first + lane.g + 8 * i, rows - 1));
  float sum[kCount][2][kTiles][4] = {};
  for (int column = warp * kMiddleColumns; column < places.width; column += kMiddleWarps * kMiddleColumns) {
    const int at = column + lane.t * kGroup;
    const bool here = at < places.width;
    uint4 rows_of_x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first + lane.g + 8 * i;
      rows_of_x[i] = here && row < rows ? load_group(x, int64_t(row) * places.width + at) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const auto& expert = of.of[k];
      Masked dropped[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) dropped[i] = masked(rows_of_x[i], bits_of(expert, place[i] + at), expert.threshold);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int64_t row_of_a = int64_t(tile * 8 + lane.g) * places.width;
        const uint4 a = here ? load_group(expert.a, row_of_a + at) : uint4{0, 0, 0, 0};
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // rows 0 to 15, 16 to 31
          const Masked &up = dropped[2 * half], &down = dropped[2 * half + 1];
          multiply_add<T>(sum[k][half][tile], {up.word[0], down.word[0], up.word[1], down.word[1]}, {a.x, a.y});
          multiply_add<T>(sum[k][half][tile], {up.word[2], down.word[2], up.word[3], down.word[3]}, {a.z, a.w});
        }
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = half * 16 + lane.g + i / 2 * 8, column = tile * 8 + 2 * lane.t + i % 2;
          parts[warp][(k * kMiddleRows + row) * kRank + column] = sum[k][half][tile][i];
        }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kOut; i += kMiddleWarps * 32) {
    float all = 0;
    for (int w = 0; w < kMiddleWarps; ++w) all += parts[w][i];
    const auto& expert = of.of[i / (kMiddleRows * kRank)];
    const int row = first + i / kRank % kMiddleRows;
    if (row >= rows) continue;
    static_cast<T*>(expert.middle)[int64_t(row) * expert.stride + i % kRank] = rounded<T>(all * kept_share(expert));
  }
}

// ---- the gradient of x ---------------------------------------------------------------------------------------------

constexpr int kPullWarps = 4, kPullColumns = 32;  // columns of a warp

// A warp keeps its columns of A and goes down the rows.
template <class T, int kRank, int kCount>
__global__ void __launch_bounds__(kPullWarps * 32) pulls(MaskedExperts of, void* dx, int rows, Places places) {
  using V = Vector<T>;
  const Lane lane;
  const int column = static_cast<int>(blockIdx.x * kPullWarps + threadIdx.x / 32) * kPullColumns;
  const int at = column + lane.t * kGroup, from = column + lane.g / 2 * kGroup + lane.g % 2;
  uint32_t a[kCount][4][2];  // the numbers (2 j and 2 j + 1) of every group are tile j
#pragma unroll
  for (int k = 0; k < kCount; ++k)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int64_t row = 2 * lane.t + 8 * part;
        const bool here = from < places.width && row < kRank;
        const int64_t number = row * places.width + from + 2 * j;
        a[k][j][part] = here ? two_of(of.of[k].a, number, number + places.width) : 0;
      }
  const int first = static_cast<int>(blockIdx.y) * kPullRows, last = min(first + kPullRows, rows);
  const bool inside = at < places.width;
  T* const to = static_cast<T*>(dx) + at;
  const auto read = [&](int row) { return load(to + int64_t(row) * places.width); };
  V ahead[2];  // rows g and g + 8 of the next 16: memory is asked for them before these are computed
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (inside && first + lane.g + 8 * half < last) ahead[half] = read(first + lane.g + 8 * half);
  for (int top = first; top < last; top += 16) {
    V now[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      now[half] = ahead[half];
      const int next = top + 16 + lane.g + 8 * half;
      if (inside && next < last) ahead[half] = read(next);
    }
    float sum[kCount][4][4] = {};
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      uint32_t middle[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = top + lane.g + i % 2 * 8, rank = 2 * lane.t + i / 2 * 8;
        const bool here = row < last && rank < kRank;
        middle[i] = here ? load_pair(of.of[k].middle, int64_t(row) * of.of[k].stride + rank) : 0;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j)
        multiply_add<T>(sum[k][j], {middle[0], middle[1], middle[2], middle[3]}, {a[k][j][0], a[k][j][1]});
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = top + lane.g + 8 * half;
      if (row >= last || !inside) continue;
      float value[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) value[i] = widened(now[half].at[i]);
      const int64_t place = places.of_row(row) + at;
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const auto& expert = of.of[k];
        const uint64_t bits = bits_of(expert, place);
        const float factor = kept_share(expert) * expert.scale;
#pragma unroll
        for (int i = 0; i < kGroup; ++i)
          if ((bits >> (8 * i) & 255) >= expert.threshold) value[i] += factor * sum[k][i / 2][2 * half + i % 2];
      }
#pragma unroll
      for (int i = 0; i < kGroup; ++i) now[half].at[i] = rounded<T>(value[i]);
      store(to + int64_t(row) * places.width, now[half]);
    }
  }
}

// ---- the gradient of A ---------------------------------------------------------------------------------------------

constexpr int kSumWarps = 8, kSumColumns = 64;

// The rows are shared out so that some 256 blocks, two a processor, have work.
int sum_shares(const Rows& rows) {
  const int columns = static_cast<int>(blocks_for(rows.width, kSumColumns));
  return columns >= 256 ? 1 : (columns <= 8 ? 32 : 256 / columns);
}

// A block sums a share of the rows for 64 columns; its warps take turns by 16 rows.
template <class T, int kRank, int kCount>
__global__ void __launch_bounds__(kSumWarps * 32)
    sums(MaskedExperts of, const void* x, int rows, Places places, float* shares) {
  constexpr int kOut = kRank * kSumColumns;
  __shared__ float parts[kSumWarps][kOut];
  const Lane lane;
  const int warp = static_cast<int>(threadIdx.x / 32), column = static_cast<int>(blockIdx.x) * kSumColumns;
  const int at = column + lane.g * kGroup;
  float sum[kCount][8][4] = {};
  for (int top = (static_cast<int>(blockIdx.y) * kSumWarps + warp) * 16; top < rows;
       top += static_cast<int>(gridDim.y) * kSumWarps * 16) {
    uint4 rows_of_x[4];
    int64_t place[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = top + 2 * lane.t + i % 2 + i / 2 * 8;
      const bool here = row < rows && at < places.width;
      rows_of_x[i] = here ? load_group(x, int64_t(row) * places.width + at) : uint4{0, 0, 0, 0};
      place[i] = places.of_row(min(row, rows - 1)) + at;
    }
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const auto& expert = of.of[k];
      Masked dropped[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) dropped[i] = masked(rows_of_x[i], bits_of(expert, place[i]), expert.threshold);
      uint32_t middle[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = top + 2 * lane.t + i / 2 * 8, rank = lane.g + i % 2 * 8;
        const int64_t number = int64_t(row) * expert.stride + rank;
        const bool upper = rank < kRank && row < rows, lower = rank < kRank && row + 1 < rows;
        middle[i] = lower ? two_of(expert.middle, number, number + expert.stride)
                          : (upper ? static_cast<const uint16_t*>(expert.middle)[number] : 0);
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {  // number j of every group
        const unsigned pick = j % 2 ? 0x7632 : 0x5410;
        multiply_add<T>(sum[k][j], {middle[0], middle[1], middle[2], middle[3]},
                        {__byte_perm(dropped[0].word[j / 2], dropped[1].word[j / 2], pick),
                         __byte_perm(dropped[2].word[j / 2], dropped[3].word[j / 2], pick)});
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int rank = lane.g + i / 2 * 8, group = 2 * lane.t + i % 2;
        if (rank < kRank) parts[warp][rank * kSumColumns + group * kGroup + j] = sum[k][j][i];
      }
    __syncthreads();
    float* share = shares + (int64_t(blockIdx.y) * kCount + k) * kRank * places.width;
    for (int i = static_cast<int>(threadIdx.x); i < kOut; i += kSumWarps * 32) {
      float all = 0;
      for (int w = 0; w < kSumWarps; ++w) all += parts[w][i];
      const int to = column + i % kSumColumns;
      if (to < places.width) share[int64_t(i / kSumColumns) * places.width + to] = all;
    }
  }
}

__global__ void add_shares(MaskedExperts of, const float* shares, int count, int64_t each) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= each * of.count) return;
  float all = 0;
  for (int share = 0; share < count; ++share) all += shares[share * each * of.count + i];
  const auto& expert = of.of[i / each];
  static_cast<float*>(expert.a)[i % each] = all * kept_share(expert) * expert.scale;
}

// ----------------------------------------------------------------------------------------------------------------------

template <class T, int kRank, class Work>
void with_count(int count, const Work& work) {
  if (count == 1) return work(T(), std::integral_constant<int, kRank>(), std::integral_constant<int, 1>());
  if (count == 2) return work(T(), std::integral_constant<int, kRank>(), std::integral_constant<int, 2>());
  work(T(), std::integral_constant<int, kRank>(), std::integral_constant<int, 3>());
}
// Calls work with a number of the stored type, the rank and the count as constants.
template <class Work>
void with_constants(const Rows& rows, const MaskedExperts& of, const Work& work) {
  static_assert(kMostMasked == 3);
  const bool brain = rows.number == Number::bfloat16;
  if (of.rank == 16)
    brain ? with_count<__nv_bfloat16, 16>(of.count, work) : with_count<__half, 16>(of.count, work);
  else
    brain ? with_count<__nv_bfloat16, 8>(of.count, work) : with_count<__half, 8>(of.count, work);
}

}  // namespace

void masked_middles(const Rows& rows, const void* x, const MaskedExperts& of, Stream stream) {
  with_constants(rows, of, [&](auto number, auto rank, auto count) {
    middles<decltype(number), rank(), count()>
        <<<blocks_for(rows.count, kMiddleRows), kMiddleWarps * 32, 0, as_stream(stream)>>>(
            of, x, static_cast<int>(rows.count), places_of(rows, of));
  });
  check_launch("products behind dropout");
}

void add_masked_pulls(const Rows& rows, void* dx, const MaskedExperts& of, Stream stream) {
  const dim3 grid(blocks_for(rows.width, kPullWarps * kPullColumns), blocks_for(rows.count, kPullRows));
  with_constants(rows, of, [&](auto number, auto rank, auto count) {
    pulls<decltype(number), rank(), count()>
        <<<grid, kPullWarps * 32, 0, as_stream(stream)>>>(of, dx, static_cast<int>(rows.count), places_of(rows, of));
  });
  check_launch("gradient through dropout");
}

int64_t masked_sum_room(const Rows& rows, const MaskedExperts& of) {
  return int64_t(sum_shares(rows)) * of.count * of.rank * rows.width;
}

void masked_sums(const Rows& rows, const void* x, const MaskedExperts& of, float* room, Stream stream) {
  const int shares = sum_shares(rows);
  const dim3 grid(blocks_for(rows.width, kSumColumns), static_cast<unsigned>(shares));
  with_constants(rows, of, [&](auto number, auto rank, auto count) {
    sums<decltype(number), rank(), count()><<<grid, kSumWarps * 32, 0, as_stream(stream)>>>(
        of, x, static_cast<int>(rows.count), places_of(rows, of), room);
  });
  const int64_t each = of.rank * rows.width;
  add_shares<<<blocks_for(each * of.count, 256), 256, 0, as_stream(stream)>>>(of, room, shares, each);
  check_launch("gradient of products behind dropout");
}

}  // namespace asr::cuda
