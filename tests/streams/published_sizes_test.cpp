// Sizes of benchmarks whose files are not there.
#include "streams/published_sizes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace asr {
namespace {

TEST(PublishedSizes, AddUp) {
  const auto totals = [](const std::string& stream, const std::string& path) {
    int64_t train = 0, scored = 0;
    for (const auto& task : published_sizes(stream, path).tasks) {
      train += task.train;
      scored += task.scored;
    }
    return std::make_pair(train, scored);
  };
  EXPECT_EQ(totals("vqav2-10", "data/vqav2-10").first, 443757);
  EXPECT_EQ(totals("vqav2-10:asr", "x").second, 214354 - 214354 * 5000 / 40504);
  EXPECT_EQ(totals("vqacl", "data/nextqa"), std::make_pair(int64_t(37231), int64_t(9085)));
  EXPECT_EQ(published_sizes("vqacl", "data/vqacl").tasks.size(), 10u);
  EXPECT_EQ(published_sizes("clt-vqa", "x").tasks.size(), 9u);
  EXPECT_EQ(published_sizes("coin", "x").tasks.size(), 8u);
  EXPECT_EQ(totals("ucit", "x").second, 18000);
  EXPECT_TRUE(published_sizes("vqacl", "data/nextqa").verified);
  EXPECT_FALSE(published_sizes("coin", "x").verified);
  EXPECT_THROW(published_sizes("world-10", ""), Error);
}

}  // namespace
}  // namespace asr
