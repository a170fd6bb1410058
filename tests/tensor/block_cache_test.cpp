// Memory of CPU tensors out of the block cache: aligned, apart from one another, used again, safe across threads.
#include "tensor/block_cache.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <thread>

namespace asr {
namespace {

torch::Tensor bytes(int64_t count) {
  return torch::empty({count}, at::kByte);
}

TEST(BlockCache, BlocksAreAlignedWritableAndApart) {
  use_block_cache();
  std::vector<torch::Tensor> all;
  for (const int64_t size :
       {int64_t(1), int64_t(63), int64_t(64), int64_t(65), int64_t(65535), int64_t(65536), int64_t(65537),
        int64_t(73728), int64_t(73729), int64_t(131072), int64_t(131073), int64_t(33554432), int64_t(33554433)})
    for (int copy = 0; copy < 2; ++copy) all.push_back(bytes(size).fill_(static_cast<int64_t>(all.size() + 1)));
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all[i].data_ptr()) % 64, 0u) << all[i].numel();
    EXPECT_TRUE(all[i].eq(static_cast<int64_t>(i + 1)).all().item<bool>()) << all[i].numel();
  }
}

TEST(BlockCache, AFreedBlockServesTheNextTensorOfItsSize) {
  use_block_cache();
  for (const int64_t size : {100, 5000, 100000, 3000000}) {
    auto first = bytes(size);
    const void* at = first.data_ptr();
    first.reset();
    EXPECT_EQ(bytes(size).data_ptr(), at) << size;
  }
}

TEST(BlockCache, TensorsMayGrowAndBeEmpty) {
  use_block_cache();
  EXPECT_EQ(bytes(0).data_ptr(), nullptr);
  auto x = torch::arange(10, at::kInt);
  x.resize_({100000});
  EXPECT_TRUE(x.narrow(0, 0, 10).equal(torch::arange(10, at::kInt)));
}

// More than a thread may keep: all of it goes back, and work goes on.
TEST(BlockCache, WhatIsKeptIsBounded) {
  use_block_cache();
  for (int round = 0; round < 3; ++round) {
    std::vector<torch::Tensor> many;
    for (int i = 0; i < 40; ++i) many.push_back(bytes(10 << 20));
    many.clear();
  }
  EXPECT_EQ(bytes(10).fill_(3).sum().item<int64_t>(), 30);
}

TEST(BlockCache, BlocksMayBeFreedByAnotherThreadAndAfterItsEnd) {
  use_block_cache();
  std::vector<torch::Tensor> made;
  std::thread([&] {
    for (int i = 0; i < 200; ++i) made.push_back(torch::full({i + 1}, i, at::kInt));
  }).join();
  std::vector<std::thread> team;
  for (int t = 0; t < 4; ++t)
    team.emplace_back(
        [mine = std::vector<torch::Tensor>(made.begin() + t * 50, made.begin() + (t + 1) * 50)]() mutable {
          for (int round = 0; round < 50; ++round)
            for (auto& x : mine) x = x.clone();
          for (const auto& x : mine) EXPECT_TRUE(x.eq(x.size(0) - 1).all().item<bool>());
        });
  made.clear();
  for (auto& thread : team) thread.join();
}

}  // namespace
}  // namespace asr
