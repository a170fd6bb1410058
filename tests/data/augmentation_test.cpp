#include "data/augmentation.h"

#include <gtest/gtest.h>

namespace asr {
namespace {

Image8 numbered(int64_t height, int64_t width) {
  Image8 image{height, width, {}};
  for (int64_t i = 0; i < height * width * 3; ++i) image.rgb.push_back(static_cast<uint8_t>(i));
  return image;
}

TEST(Augmentation, FlipsAndCropsPixels) {
  const auto image = numbered(2, 3);
  EXPECT_EQ(flipped(image).rgb, (std::vector<uint8_t>{6, 7, 8, 3, 4, 5, 0, 1, 2, 15, 16, 17, 12, 13, 14, 9, 10, 11}));
  EXPECT_EQ(flipped(flipped(image)).rgb, image.rgb);
  const auto part = cropped(image, 1, 1, 1, 2);
  EXPECT_EQ(part.height, 1);
  EXPECT_EQ(part.width, 2);
  EXPECT_EQ(part.rgb, (std::vector<uint8_t>{12, 13, 14, 15, 16, 17}));
}

TEST(Augmentation, LeavesOutWhatWouldChangeTheAnswer) {
  const auto allowed = [](const char* q, const char* a) { return allowed_augmentation(q, a); };
  EXPECT_TRUE(allowed("what color is the dog?", "brown").flip);
  EXPECT_TRUE(allowed("what color is the dog?", "brown").crop);
  EXPECT_FALSE(allowed("what is to the left of the cat?", "dog").flip);
  EXPECT_FALSE(allowed("which way is the man looking?", "Left").flip);
  EXPECT_FALSE(allowed("what does the sign say?", "stop").flip);
  EXPECT_FALSE(allowed("how many dogs?", "2").crop);
  EXPECT_TRUE(allowed("how many dogs?", "2").flip);
  EXPECT_FALSE(allowed("is there a dog?", "yes").crop);
  EXPECT_FALSE(allowed("find the dog", "[0.1, 0.2, 0.3, 0.4]").flip);
  EXPECT_FALSE(allowed("find the dog", "[0.1, 0.2, 0.3, 0.4]").crop);
  EXPECT_FALSE(allowed("where is the dog?", "grass").crop);
}

TEST(Augmentation, IsKeyedAndKeepsFourFifths) {
  const auto image = numbered(10, 20);
  bool flips = false, crops = false, neither = false;
  for (uint64_t key = 0; key < 40; ++key) {
    const auto a = augmented(image, {}, key), b = augmented(image, {}, key);
    EXPECT_EQ(a.rgb, b.rgb);
    EXPECT_TRUE(a.height >= 8 && a.height <= 10 && a.width >= 16 && a.width <= 20);
    crops = crops || a.height == 8;
    neither = neither || augmented(image, {true, false}, key).rgb == image.rgb;
    flips = flips || augmented(image, {true, false}, key).rgb == flipped(image).rgb;
    EXPECT_EQ(augmented(image, {false, false}, key).rgb, image.rgb);
  }
  EXPECT_TRUE(flips && crops && neither);
  EXPECT_EQ(augmented(numbered(1, 1), {}, 3).rgb.size(), 3u);
}

}  // namespace
}  // namespace asr
