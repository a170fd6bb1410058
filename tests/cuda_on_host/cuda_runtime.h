// CUDA kernels on a CPU, as plain C++: what nvcc adds to the language, as far as our kernels use it. The threads of a
// block are fibers that meet at barriers, blocks run one after another, so a kernel's indices, masks and sums are
// tested where no GPU is. What this cannot show: speed, caches, and races that no order of the lanes below brings out.
#pragma once

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static  // one block at a time
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned first = 1, unsigned second = 1, unsigned third = 1) : x(first), y(second), z(third) {}
};
struct uint4 {
  unsigned x, y, z, w;
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t) {
  return "";
}
inline cudaError_t cudaGetDevice(int*) {
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}

namespace asr::cuda_on_host {

// In which order the lanes of a block run between barriers. A kernel that lacks a barrier gives other numbers in one.
enum class Order { upwards, downwards };
void set_order(Order order);

struct Launch {
  dim3 grid, block;
  size_t shared;  // bytes
  Launch(dim3 blocks, dim3 threads, size_t bytes = 0, void* /*stream*/ = nullptr)
      : grid(blocks), block(threads), shared(bytes) {}
  template <class... A>
  auto operator()(const A&... arguments) const {
    return std::make_pair(*this, std::make_tuple(arguments...));
  }
};
void run(const Launch& launch, const std::function<void()>& thread);

// Meet all threads of the block, or of the warp; a thread that never comes is an error.
void block_barrier();
void warp_barrier();
// This lane's place in memory that its warp shares, of up to 64 bytes a lane.
unsigned char* lane_slot(unsigned lane);

void* shared_bytes();
template <class T>
T* shared_memory() {
  return static_cast<T*>(shared_bytes());
}

template <class... P, class... A>
void operator->*(void (*kernel)(P...), const std::pair<Launch, std::tuple<A...>>& call) {
  run(call.first, [&] { std::apply(kernel, call.second); });
}

// Every lane gives a value; `read` makes of the values of all lanes what this lane gets.
template <class T, class Read>
auto exchange(const T& value, const Read& read) {
  static_assert(sizeof(T) <= 64);
  std::memcpy(lane_slot(threadIdx.x % 32), &value, sizeof value);
  warp_barrier();
  const auto result = read([](unsigned lane) {
    T other;
    std::memcpy(&other, lane_slot(lane), sizeof other);
    return other;
  });
  warp_barrier();  // all have read
  return result;
}

}  // namespace asr::cuda_on_host

// std::pair's own namespace is not searched for the operator.
using asr::cuda_on_host::operator->*;

inline void __syncthreads() {
  asr::cuda_on_host::block_barrier();
}
inline void __syncwarp() {
  asr::cuda_on_host::warp_barrier();
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int step) {
  return asr::cuda_on_host::exchange(value, [&](auto of) { return of(threadIdx.x % 32 ^ unsigned(step)); });
}
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  return asr::cuda_on_host::exchange(value, [&](auto of) { return of(unsigned(from) % 32); });
}
inline int min(int a, int b) {
  return a < b ? a : b;
}
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
// The bytes of y:x that the four low digits of `choice` name; ours never ask for a sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned choice) {
  const uint64_t both = uint64_t(y) << 32 | x;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= unsigned(both >> (8 * (choice >> (4 * i) & 7)) & 255) << (8 * i);
  return out;
}
// 255 for every byte of a that is at least b's.
inline unsigned __vcmpgeu4(unsigned a, unsigned b) {
  unsigned out = 0;
  for (int i = 0; i < 32; i += 8)
    if ((a >> i & 255) >= (b >> i & 255)) out |= 255u << i;
  return out;
}
