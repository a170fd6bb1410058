// The gradient of x through dropout and A of one or two experts, without the matrix between: each thread keeps the rank
// x 8 numbers of A for its eight columns and goes down some rows.
#include "ops/cuda_common.cuh"

namespace asr::cuda {
namespace {

constexpr int kThreads = 128, kColumns = 8, kRows = 32;  // columns a thread, rows a block

template <class T, int kRank>
__device__ void pull_rows(const MaskedPull& pull, const MaskedPulls& of, int64_t rows, int64_t width, int column) {
  using V = Vector<T>;
  static_assert(V::size == kColumns, "16-bit numbers");
  float a[kRank][kColumns];
  for (int r = 0; r < kRank; ++r) {
    const V v = load(static_cast<const T*>(pull.a) + r * width + column);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) a[r][j] = widened(v.at[j]);
  }
  const float kept = 256.0f / static_cast<float>(256 - pull.threshold) * pull.scale;
  const int64_t each = rows / of.samples, first = int64_t(blockIdx.y) * kRows;
  const int64_t last = first + kRows < rows ? first + kRows : rows;
  for (int64_t row = first; row < last; ++row) {
    const T* middle = static_cast<const T*>(pull.middle) + row * kRank;
    float sum[kColumns] = {};
#pragma unroll
    for (int part = 0; part < kRank / V::size; ++part) {
      const V m = load(middle + part * V::size);
#pragma unroll
      for (int r = 0; r < V::size; ++r) {
        const float value = widened(m.at[r]);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sum[j] += value * a[part * V::size + r][j];
      }
    }
    const int64_t place = (of.positions ? of.positions[row / each] * each + row % each : row) * width + column;
    const uint64_t bits = mixed(pull.key + static_cast<uint64_t>(place) * 0x9e3779b97f4a7c15ull);
    T* dx = static_cast<T*>(of.dx) + row * width + column;
    V v = load(dx);
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      if ((bits >> (8 * j) & 255) >= pull.threshold) v.at[j] = rounded<T>(widened(v.at[j]) + kept * sum[j]);
    store(dx, v);
  }
}

template <class T, int kRank>
__global__ void __launch_bounds__(kThreads) masked_pulls(MaskedPulls of, int64_t rows, int64_t width) {
  const int column = (blockIdx.x * kThreads + threadIdx.x) * kColumns;
  if (column >= width) return;
  for (int k = 0; k < of.count; ++k) pull_rows<T, kRank>(of.of[k], of, rows, width, column);
}

template <class T>
void start(const Rows& rows, const MaskedPulls& of, Stream stream) {
  const dim3 grid(blocks_for(rows.width, kThreads * kColumns), blocks_for(rows.count, kRows));
  if (of.of[0].rank == 16)
    masked_pulls<T, 16><<<grid, kThreads, 0, as_stream(stream)>>>(of, rows.count, rows.width);
  else
    masked_pulls<T, 8><<<grid, kThreads, 0, as_stream(stream)>>>(of, rows.count, rows.width);
}

}  // namespace

void add_masked_pulls(const Rows& rows, const MaskedPulls& of, Stream stream) {
  if (rows.number == Number::bfloat16)
    start<__nv_bfloat16>(rows, of, stream);
  else
    start<__half>(rows, of, stream);
  check_launch("gradient through masks");
}

}  // namespace asr::cuda
