// The resize against sums done by hand, against a plain double-precision resize, and by what must hold for any filter.
#include "io/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/support/files.h"

namespace asr {
namespace {

constexpr ResampleFilter filters[] = {ResampleFilter::Lanczos, ResampleFilter::Bilinear, ResampleFilter::Bicubic};

Image8 noise(int64_t height, int64_t width) {
  Image8 out{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width) * 3)};
  uint32_t state = 1;
  for (auto& value : out.rgb) value = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return out;
}

std::vector<int> first_channel(const Image8& image) {
  std::vector<int> out;
  for (size_t i = 0; i < image.rgb.size(); i += 3) out.push_back(image.rgb[i]);
  return out;
}

Image8 grey_row(const std::vector<uint8_t>& values) {
  Image8 out{1, static_cast<int64_t>(values.size()), {}};
  for (uint8_t value : values) out.rgb.insert(out.rgb.end(), 3, value);
  return out;
}

TEST(Resample, HandComputedValues) {
  const auto row = grey_row({0, 100, 200, 40});
  // Halved: the triangle spans two pixels each side, weights 0.75 0.75 0.25 over 1.75, then mirrored.
  EXPECT_EQ(first_channel(resize(row, 1, 2, ResampleFilter::Bilinear)), (std::vector<int>{71, 117}));
  // Doubled: 3/4 of the near pixel, 1/4 of the far one.
  EXPECT_EQ(first_channel(resize(grey_row({0, 100}), 1, 4, ResampleFilter::Bilinear)),
            (std::vector<int>{0, 25, 75, 100}));
  // Doubled, cubic with a = -0.5 at distances 0.25, 0.75 and 1.75: 0.8671875, 0.2265625, -0.0234375.
  const double sum = 0.8671875 + 0.2265625 - 0.0234375;
  const auto cubic = first_channel(resize(grey_row({100, 200, 60}), 1, 6, ResampleFilter::Bicubic));
  EXPECT_EQ(cubic[1], std::lround((100 * 0.8671875 + 200 * 0.2265625 + 60 * -0.0234375) / sum));
}

TEST(Resample, ConstantImagesStayConstant) {
  const Image8 image{13, 7, std::vector<uint8_t>(13 * 7 * 3, 201)};
  for (auto filter : filters)
    for (int64_t size : {1, 3, 7, 13, 50})
      for (uint8_t value : resize(image, size, 2 * size, filter).rgb) EXPECT_NEAR(value, 201, 1);
}

TEST(Resample, TheSameSizeIsACopy) {
  const auto image = noise(9, 11);
  for (auto filter : filters) EXPECT_EQ(resize(image, 9, 11, filter).rgb, image.rgb);
}

TEST(Resample, AWindowIsThatPartOfTheWhole) {
  const auto image = noise(31, 47);
  for (auto filter : filters)
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{20, 70}, {31, 12}, {64, 47}}) {
      const auto whole = resize(image, height, width, filter);
      const ImageWindow window{5, 3, height - 9, width - 7};
      const auto part = resize(image, height, width, filter, window);
      for (int64_t y = 0; y < window.height; ++y)
        for (int64_t x = 0; x < window.width * 3; ++x)
          ASSERT_EQ(part.rgb[y * window.width * 3 + x], whole.rgb[((y + window.top) * width + window.left) * 3 + x]);
    }
}

// One axis of bicubic with antialiasing, in doubles, over all pixels: no supports, no fixed point.
double cubic(double x) {
  x = std::abs(x);
  if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
  return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

std::vector<double> plain_axis(const std::vector<double>& input, int64_t output) {
  const double scale = static_cast<double>(input.size()) / static_cast<double>(output), stretch = std::max(1.0, scale);
  std::vector<double> out;
  for (int64_t i = 0; i < output; ++i) {
    double sum = 0, weights = 0;
    for (size_t j = 0; j < input.size(); ++j) {
      const double weight = cubic((static_cast<double>(j) + 0.5 - (static_cast<double>(i) + 0.5) * scale) / stretch);
      sum += weight * input[j];
      weights += weight;
    }
    out.push_back(sum / weights);
  }
  return out;
}

TEST(Resample, BicubicAgreesWithAPlainOne) {
  for (int64_t output : {5, 17, 40, 41, 90}) {
    const auto image = noise(1, 41);
    std::vector<double> input;
    for (int value : first_channel(image)) input.push_back(value);
    const auto expected = plain_axis(input, output);
    const auto along_rows = first_channel(resize(image, 1, output, ResampleFilter::Bicubic));
    const auto along_columns = first_channel(resize({41, 1, image.rgb}, output, 1, ResampleFilter::Bicubic));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(along_rows[i], std::clamp(expected[i], 0.0, 255.0), 0.6);  // half a step, and the fixed point
      EXPECT_EQ(along_rows[i], along_columns[i]);
    }
  }
}

TEST(Resample, ExtremeShapesWork) {
  for (auto filter : filters) {
    EXPECT_EQ(resize(noise(1, 1), 56, 56, filter).rgb.size(), 56u * 56 * 3);
    EXPECT_EQ(resize(noise(1, 20000), 56, 56, filter).rgb.size(), 56u * 56 * 3);
    EXPECT_EQ(resize(noise(1, 20000), 336, 6720000, filter, {0, 3359832, 336, 336}).width, 336);
    EXPECT_EQ(resize(noise(300, 300), 1, 1, filter).rgb.size(), 3u);
  }
}

TEST(Resample, ImpossibleSizesAreErrors) {
  const auto image = noise(2, 2);
  EXPECT_CONTAINS(error_of([&] { resize(image, 0, 3, ResampleFilter::Bilinear); }), "cannot resize");
  EXPECT_CONTAINS(error_of([&] { resize(image, 4, 4, ResampleFilter::Bilinear, {2, 2, 3, 1}); }), "window");
  EXPECT_CONTAINS(error_of([&] { resize(image, 20000, 20000, ResampleFilter::Bilinear); }), "too large");
}

}  // namespace
}  // namespace asr
