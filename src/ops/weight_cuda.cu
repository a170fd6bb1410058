// Weights in fewer bits: rows to float8 with a scale each, and normal floats of four bits back to numbers.
#include <cuda_fp8.h>

#include "ops/cuda_common.cuh"

namespace asr::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float block_max(float value) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float most = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) most = fmaxf(most, parts[i]);
  return most;
}

// 16-bit numbers alone: eight of them become eight bytes.
template <class T>
__global__ void scale_rows(const T* x, unsigned char* out, float* scale, int width) {
  using V = Vector<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  T* row = reinterpret_cast<T*>(memory);
  const int64_t begin = int64_t(blockIdx.x) * width;
  float most = 0;
  for (int i = threadIdx.x * V::size; i < width; i += kThreads * V::size) {
    const V v = load(x + begin + i);
    store(row + i, v);
#pragma unroll
    for (int j = 0; j < V::size; ++j) most = fmaxf(most, fabsf(widened(v.at[j])));
  }
  const float divisor = fmaxf(block_max(most) / 448.0f, 1e-12f), factor = 1 / divisor;
  if (threadIdx.x == 0) scale[blockIdx.x] = divisor;
  for (int i = threadIdx.x * V::size; i < width; i += kThreads * V::size) {
    const V v = load(row + i);
    unsigned char bytes[V::size];
#pragma unroll
    for (int j = 0; j < V::size; ++j)
      bytes[j] = __nv_cvt_float_to_fp8(widened(v.at[j]) * factor, __NV_SATFINITE, __NV_E4M3);
    if constexpr (V::size == 8)
      *reinterpret_cast<uint64_t*>(out + begin + i) = *reinterpret_cast<const uint64_t*>(bytes);
    else
      *reinterpret_cast<uint32_t*>(out + begin + i) = *reinterpret_cast<const uint32_t*>(bytes);
  }
}

__constant__ float kValues[16] = {-1.0f,
                                  -0.6961928009986877f,
                                  -0.5250730514526367f,
                                  -0.39491748809814453f,
                                  -0.28444138169288635f,
                                  -0.18477343022823334f,
                                  -0.09105003625154495f,
                                  0.0f,
                                  0.07958029955625534f,
                                  0.16093020141124725f,
                                  0.24611230194568634f,
                                  0.33791524171829224f,
                                  0.44070982933044434f,
                                  0.5626170039176941f,
                                  0.7229568362236023f,
                                  1.0f};

// Each thread unpacks eight bytes, sixteen numbers, which share a scale.
template <class T>
__global__ void unpack_numbers(PackedNf4 from, T* out, int64_t groups) {
  __shared__ float values[16];
  if (threadIdx.x < 16) values[threadIdx.x] = kValues[threadIdx.x];
  __syncthreads();
  const int64_t group = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (group >= groups) return;
  const float factor = from.scale[group / 4];
  const uint64_t bytes = reinterpret_cast<const uint64_t*>(from.data)[group];
  using V = Vector<T>;
#pragma unroll
  for (int part = 0; part < 16 / V::size; ++part) {
    V v;
#pragma unroll
    for (int j = 0; j < V::size; ++j) {
      const int at = part * V::size + j;
      const unsigned byte = static_cast<unsigned>(bytes >> (8 * (at / 2))) & 255u;
      v.at[j] = rounded<T>(values[at % 2 == 0 ? byte >> 4 : byte & 15u] * factor);
    }
    store(out + group * 16 + part * V::size, v);
  }
}

}  // namespace

int compute_capability() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return 10 * major + minor;
}

void fp8_rows(const Rows& rows, const void* x, void* out, float* scale, Stream stream) {
  with_number(rows.number, [&](auto number) {
    using T = decltype(number);
    scale_rows<T><<<static_cast<unsigned>(rows.count), kThreads, rows.width * sizeof(T), as_stream(stream)>>>(
        static_cast<const T*>(x), static_cast<unsigned char*>(out), scale, static_cast<int>(rows.width));
  });
  check_launch("float8 rows");
}

void unpack_nf4(Number number, int64_t count, const PackedNf4& from, void* out, Stream stream) {
  with_number(number, [&](auto like) {
    using T = decltype(like);
    const int64_t groups = count / 16;
    unpack_numbers<T>
        <<<blocks_for(groups, kThreads), kThreads, 0, as_stream(stream)>>>(from, static_cast<T*>(out), groups);
  });
  check_launch("numbers of four bits");
}

}  // namespace asr::cuda
