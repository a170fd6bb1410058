#include "data/tensor_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "tests/support/files.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

TEST(TensorCache, GivesBackWhatItKeeps) {
  const TemporaryFolder folder;
  const TensorCache cache(folder / "new/cache");
  EXPECT_FALSE(cache.find("a").defined());
  const auto bytes = at::arange(3 * 5 * 7).to(at::kByte).view({3, 5, 7});
  const auto numbers = at::linspace(-2, 3, 26).view({13, 2});
  cache.keep("a", bytes.transpose(0, 2).contiguous().transpose(0, 2));  // in another order of memory
  cache.keep("b", numbers);
  EXPECT_TRUE(cache.find("a").equal(bytes));
  EXPECT_TRUE(TensorCache(folder / "new/cache").find("b").equal(numbers));
  cache.keep("b", bytes);
  EXPECT_TRUE(cache.find("b").equal(bytes));
}

// Any byte of the file, and any length, is told apart from what was kept.
TEST(TensorCache, DamageIsNeverGivenBack) {
  const TemporaryFolder folder;
  const TensorCache cache(folder / "cache");
  cache.keep("a", at::arange(70).to(at::kByte).view({7, 10}));
  const auto path = folder / "cache/a.tensor";
  const auto whole = read_file(path);
  for (size_t i = 0; i < whole.size(); ++i) {
    auto changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    write_file_atomically(path, changed);
    EXPECT_FALSE(cache.find("a").defined()) << "byte " << i;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file_atomically(path, whole.substr(0, size));
    EXPECT_FALSE(cache.find("a").defined()) << size << " bytes";
  }
  write_file_atomically(path, whole + "x");
  EXPECT_FALSE(cache.find("a").defined());
  cache.keep("a", at::ones({2}, at::kByte));
  EXPECT_TRUE(cache.find("a").equal(at::ones({2}, at::kByte)));
}

TEST(TensorCache, OneProcessWritesAndNobodyWaits) {
  const TemporaryFolder folder;
  const TensorCache cache(folder / "cache");
  const int other = open((folder / "cache/a.tensor.lock").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  cache.keep("a", at::ones({2}));
  EXPECT_FALSE(cache.find("a").defined());
  close(other);
  cache.keep("a", at::ones({2}));
  EXPECT_TRUE(cache.find("a").defined());
}

TEST(TensorCache, WhatCannotBeWrittenIsNotKept) {
  const TemporaryFolder folder;
  const TensorCache cache(folder / "cache");
  fs::create_directory(folder / "cache/a.tensor");
  cache.keep("a", at::ones({2}));
  EXPECT_FALSE(cache.find("a").defined());
  write_file_atomically(folder / "file", "");
  EXPECT_NE(error_of([&] { TensorCache(folder / "file/cache"); }), "");
}

}  // namespace
}  // namespace asr
