// The stand-in itself: barriers, shuffles, products of a warp.
#include <gtest/gtest.h>

#include "cuda_runtime.h"
#include "ops/cuda_warp_product.cuh"

namespace asr {
namespace {

void give_and_take(int* out) {
  static int given[64];
  given[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = given[63 - threadIdx.x] + __shfl_xor_sync(0xffffffffu, static_cast<int>(threadIdx.x), 1);
}

void half_a_barrier(int*) {
  if (threadIdx.x < 16) __syncwarp();
}

void product(float* out) {
  // a = 1 where row = column, b = 1 + 16 * column + row: their product is b.
  const unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const auto one = [](bool there) { return there ? uint32_t(0x3f80) : 0; };
  const auto pair = [&](unsigned row, unsigned column) { return one(row == column) | one(row == column + 1) << 16; };
  const auto number = [](unsigned row, unsigned column) {
    const c10::BFloat16 value(static_cast<float>(1 + 16 * column + row));
    return uint32_t(value.x);
  };
  const auto two = [&](unsigned row) { return number(row, g) | number(row + 1, g) << 16; };
  float sum[4] = {};
  cuda::multiply_add<c10::BFloat16>(sum,
                                    {pair(g, 2 * t), pair(g + 8, 2 * t), pair(g, 2 * t + 8), pair(g + 8, 2 * t + 8)},
                                    {two(2 * t), two(2 * t + 8)});
  for (unsigned i = 0; i < 4; ++i) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}

TEST(CudaOnHost, LanesMeetAtBarriers) {
  for (const auto order : {cuda_on_host::Order::upwards, cuda_on_host::Order::downwards}) {
    cuda_on_host::set_order(order);
    int out[64] = {};
    give_and_take->*cuda_on_host::Launch(1, 64)(static_cast<int*>(out));
    for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], 63 - i + (i ^ 1));
  }
  cuda_on_host::set_order(cuda_on_host::Order::upwards);
}

TEST(CudaOnHost, ALaneThatNeverComesIsNoticed) {
  int out = 0;
  EXPECT_THROW(half_a_barrier->*cuda_on_host::Launch(1, 32)(&out), std::runtime_error);
}

TEST(CudaOnHost, ProductsOfAWarp) {
  float out[16 * 8] = {};
  product->*cuda_on_host::Launch(1, 32)(static_cast<float*>(out));
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned column = 0; column < 8; ++column) EXPECT_EQ(out[row * 8 + column], 1.0f + 16 * column + row);
}

}  // namespace
}  // namespace asr
