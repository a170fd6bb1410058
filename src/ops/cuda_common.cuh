// What our CUDA kernels share: numbers in vectors of 16 bytes, sums over a block, a checked launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "ops/cuda_kernels.h"

namespace asr::cuda {

template <class T>
__device__ inline float widened(T x) {
  return static_cast<float>(x);
}
template <class T>
__device__ inline T rounded(float x) {
  return static_cast<T>(x);
}

// 16 bytes of numbers.
template <class T>
struct alignas(16) Vector {
  static constexpr int size = 16 / sizeof(T);
  T at[size];
};

template <class T>
__device__ inline Vector<T> load(const T* from) {
  return *reinterpret_cast<const Vector<T>*>(from);
}
template <class T>
__device__ inline void store(T* to, const Vector<T>& value) {
  *reinterpret_cast<Vector<T>*>(to) = value;
}

// The sum over the lanes of a warp, in an order that does not change.
__device__ inline float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// The sum over all threads of a block of at most 1024, in an order that does not change.
__device__ inline float block_sum(float value) {
  __shared__ float parts[32];
  value = warp_sum(value);
  __syncthreads();  // the last sum has been read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < (blockDim.x + 31) / 32; ++i) sum += parts[i];
  return sum;
}

__device__ inline uint64_t mixed(uint64_t z) {  // Random::mix of base/random.h
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

inline void check_launch(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

inline cudaStream_t as_stream(Stream stream) {
  return static_cast<cudaStream_t>(stream);
}

inline unsigned blocks_for(int64_t items, int each) {
  return static_cast<unsigned>((items + each - 1) / each);
}

// Calls work with a number of the type that is stored.
template <class Work>
void with_number(Number number, const Work& work) {
  switch (number) {
    case Number::single:
      return work(float());
    case Number::half:
      return work(__half());
    case Number::bfloat16:
      return work(__nv_bfloat16());
  }
}

}  // namespace asr::cuda
