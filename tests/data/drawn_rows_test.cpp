#include "data/drawn_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace asr {
namespace {

std::vector<int64_t> first_rows(int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(i);
  return out;
}

TEST(DrawnRows, AllInOrderWhereThereIsNoLimit) {
  for (const int64_t wanted : {0, 7, 8, 1000}) EXPECT_EQ(drawn_rows(7, wanted, 3), first_rows(7)) << wanted;
  EXPECT_TRUE(drawn_rows(0, 5, 3).empty());
}

TEST(DrawnRows, AreSortedDifferentAndNotTheFirst) {
  const auto rows = drawn_rows(1000, 100, 42);
  ASSERT_EQ(rows.size(), 100u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 100u);
  EXPECT_GE(rows.front(), 0);
  EXPECT_GT(rows.back(), 900) << "the whole range is drawn from";
  EXPECT_LT(rows.back(), 1000);
  EXPECT_NE(rows, first_rows(100));
}

TEST(DrawnRows, EveryRowIsAsLikely) {
  std::vector<int> hits(10);
  for (uint64_t key = 0; key < 2000; ++key)
    for (const int64_t row : drawn_rows(10, 3, key)) ++hits[static_cast<size_t>(row)];
  for (const int hit : hits) EXPECT_NEAR(hit, 600, 80);  // four standard deviations
}

TEST(DrawnRows, DependOnTheKeyAlone) {
  EXPECT_EQ(drawn_rows(500, 20, 1), drawn_rows(500, 20, 1));
  EXPECT_NE(drawn_rows(500, 20, 1), drawn_rows(500, 20, 2));
}

TEST(SpacedRows, CoverTheWholeEvenly) {
  EXPECT_EQ(spaced_rows(12, 8), (std::vector<int64_t>{0, 1, 3, 4, 6, 7, 9, 10}));
  EXPECT_EQ(spaced_rows(10, 2), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(spaced_rows(3, 9), first_rows(3));
  EXPECT_EQ(spaced_rows(3, 0), first_rows(1));
}

TEST(DrawKey, DiffersByPurposeSeedStageAndTask) {
  std::set<uint64_t> keys;
  for (const auto purpose : {DrawPurpose::prototypes, DrawPurpose::fisher, DrawPurpose::analysis, DrawPurpose::probe}) {
    for (const uint64_t seed : {0, 1, 42})
      for (const int stage : {1, 2, 10}) keys.insert(draw_key(purpose, seed, stage));
    for (const char* task : {"", "color", "colour", "count"}) keys.insert(draw_key(purpose, task));
  }
  EXPECT_EQ(keys.size(), 4u * 13u);
}

}  // namespace
}  // namespace asr
