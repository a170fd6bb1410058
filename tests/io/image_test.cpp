// Decoding: every kind of PNG, JPEG grey, colour and inks, orientation, damage and limits.
#include "io/image.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "io/png.h"
#include "tests/support/archive.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"

namespace asr {
namespace {

using Bytes = std::vector<uint8_t>;

Image8 decode(const std::string& bytes) {
  return decode_image(span_of(bytes), "a.img");
}

// 3 wide, 2 high, every pixel of its own colour.
Bytes six_colours() {
  return {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30, 40, 50, 60, 70, 80, 90};
}

TEST(ImagePng, ColoursComeBackAsTheyWere) {
  const auto image = decode(encode_png(six_colours().data(), 3, 2));
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.rgb, six_colours());
}

TEST(ImagePng, GreyOfFewBitsIsSpreadOverTheRange) {
  EXPECT_EQ(decode(write_png({2, 1, 1, PNG_COLOR_TYPE_GRAY}, {0x40})).rgb, (Bytes{0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(decode(write_png({2, 1, 2, PNG_COLOR_TYPE_GRAY}, {0x60})).rgb, (Bytes{85, 85, 85, 170, 170, 170}));
  EXPECT_EQ(decode(write_png({2, 1, 4, PNG_COLOR_TYPE_GRAY}, {0x1f})).rgb, (Bytes{17, 17, 17, 255, 255, 255}));
  EXPECT_EQ(decode(write_png({1, 1, 8, PNG_COLOR_TYPE_GRAY}, {77})).rgb, (Bytes{77, 77, 77}));
}

TEST(ImagePng, SixteenBitsAreReducedAsPilDoes) {
  // Colour keeps the high byte; plain grey is clipped; grey with alpha keeps the high byte.
  EXPECT_EQ(decode(write_png({1, 1, 16, PNG_COLOR_TYPE_RGB}, {1, 255, 128, 0, 255, 7})).rgb, (Bytes{1, 128, 255}));
  EXPECT_EQ(decode(write_png({2, 1, 16, PNG_COLOR_TYPE_GRAY}, {0, 200, 1, 0})).rgb,
            (Bytes{200, 200, 200, 255, 255, 255}));
  EXPECT_EQ(decode(write_png({1, 1, 16, PNG_COLOR_TYPE_GRAY_ALPHA}, {9, 200, 0, 0})).rgb, (Bytes{9, 9, 9}));
}

TEST(ImagePng, AlphaIsDroppedNotBlended) {
  EXPECT_EQ(decode(write_png({1, 1, 8, PNG_COLOR_TYPE_RGBA}, {10, 20, 30, 0})).rgb, (Bytes{10, 20, 30}));
  EXPECT_EQ(decode(write_png({1, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA}, {10, 5})).rgb, (Bytes{10, 10, 10}));
  PngSpec spec{2, 1, 4, PNG_COLOR_TYPE_PALETTE};
  spec.palette = {{1, 2, 3}, {200, 100, 50}};
  spec.palette_alpha = {0, 128};
  EXPECT_EQ(decode(write_png(spec, {0x10})).rgb, (Bytes{200, 100, 50, 1, 2, 3}));
}

TEST(ImagePng, InterlacedIsTheSameImage) {
  Bytes pixels(9 * 7 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
  EXPECT_EQ(decode(write_png({9, 7, 8, PNG_COLOR_TYPE_RGB, true}, pixels)).rgb, pixels);
}

TEST(Image, OnePixelAndLongStripsWork) {
  EXPECT_EQ(decode(encode_png(six_colours().data(), 1, 1)).rgb, (Bytes{255, 0, 0}));
  const Bytes strip(20000 * 3, 100);
  EXPECT_EQ(decode(encode_png(strip.data(), 20000, 1)).width, 20000);
  EXPECT_EQ(decode(encode_png(strip.data(), 1, 20000)).height, 20000);
  EXPECT_EQ(decode(write_jpeg({20000, 1}, strip)).rgb, strip);
  EXPECT_EQ(decode(write_jpeg({1, 1}, {100, 100, 100})).rgb, (Bytes{100, 100, 100}));
}

TEST(ImageJpeg, GreyColourAndProgressiveDecode) {
  EXPECT_EQ(decode(write_jpeg({8, 8, 1}, Bytes(64, 90))).rgb, Bytes(192, 90));
  for (bool progressive : {false, true}) {
    Bytes pixels;
    for (int i = 0; i < 256; ++i) pixels.insert(pixels.end(), {200, 60, 20});
    const auto image = decode(write_jpeg({16, 16, 3, progressive}, pixels));
    ASSERT_EQ(image.rgb.size(), pixels.size());
    for (size_t i = 0; i < pixels.size(); ++i) EXPECT_NEAR(image.rgb[i], pixels[i], 2);
  }
}

TEST(ImageJpeg, InksAreTakenAsInverted) {
  Bytes inks;
  for (int i = 0; i < 64; ++i) inks.insert(inks.end(), {255, 128, 0, 200});
  const auto image = decode(write_jpeg({8, 8, 4}, inks));
  EXPECT_NEAR(image.rgb[0], 200, 1);
  EXPECT_NEAR(image.rgb[1], 100, 1);
  EXPECT_NEAR(image.rgb[2], 0, 1);
}

TEST(Image, EveryOrientationIsTurnedUpright) {
  // Pixels are numbered as stored, 3 wide and 2 high; expected values follow from the EXIF standard's figure.
  const std::vector<Bytes> expected = {{0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}, {5, 4, 3, 2, 1, 0}, {3, 4, 5, 0, 1, 2},
                                       {0, 3, 1, 4, 2, 5}, {3, 0, 4, 1, 5, 2}, {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}};
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (bool big_endian : {false, true}) {
      PngSpec spec{3, 2, 8, PNG_COLOR_TYPE_GRAY};
      spec.exif = exif_of(orientation, big_endian);
      const auto image = decode(write_png(spec, {0, 1, 2, 3, 4, 5}));
      EXPECT_EQ(image.width, orientation < 5 ? 3 : 2);
      Bytes greys;
      for (size_t i = 0; i < image.rgb.size(); i += 3) greys.push_back(image.rgb[i]);
      EXPECT_EQ(greys, expected[static_cast<size_t>(orientation - 1)]) << "orientation " << orientation;
    }
  JpegSpec spec{16, 8};
  spec.exif = std::string("Exif\0\0", 6) + exif_of(6, true);
  EXPECT_EQ(decode(write_jpeg(spec, Bytes(16 * 8 * 3, 50))).height, 16);
}

TEST(Image, BrokenOrientationIsIgnored) {
  const std::string good = exif_of(6, true);
  for (size_t cut = 1; cut < good.size(); ++cut) {
    JpegSpec spec{16, 8};
    spec.exif = std::string("Exif\0\0", 6) + good.substr(0, cut);
    EXPECT_EQ(decode(write_jpeg(spec, Bytes(16 * 8 * 3, 50))).rgb.size(), 16u * 8 * 3);
  }
  JpegSpec spec{16, 8};
  spec.exif = std::string("Exif\0\0", 6) + exif_of(9, false);
  EXPECT_EQ(decode(write_jpeg(spec, Bytes(16 * 8 * 3, 50))).height, 8);
}

TEST(Image, EveryTruncationIsOneError) {
  Bytes pixels(32 * 32 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i * 31 >> 3);
  for (const std::string& file :
       {encode_png(pixels.data(), 32, 32), write_jpeg({32, 32}, pixels), write_jpeg({32, 32, 3, true}, pixels)})
    for (size_t size = 0; size + 8 < file.size(); size += 13)
      EXPECT_CONTAINS(error_of([&] { decode(file.substr(0, size)); }), "a.img: ");
}

TEST(Image, ChangedBytesNeverCrash) {
  Bytes pixels(24 * 24 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i * 17 >> 2);
  for (const std::string& file : {encode_png(pixels.data(), 24, 24), write_jpeg({24, 24, 3, true}, pixels)})
    for (size_t i = 0; i < file.size(); ++i) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ (i % 2 ? 0xff : 0x10));
      try {
        const auto image = decode_image(span_of(changed), "a.img", {1 << 20, 1 << 16});
        EXPECT_EQ(image.rgb.size(), static_cast<size_t>(image.height * image.width * 3));
      } catch (const Error&) {
      }
    }
}

TEST(Image, HugeDimensionsAreRefusedBeforeAnythingIsAllocated) {
  std::string png = encode_png(six_colours().data(), 3, 2);
  const ImageLimits small{5, 100};
  EXPECT_CONTAINS(error_of([&] { decode_image(span_of(png), "a.png", small); }), "3x2 pixels is too large");
  const std::string jpeg = write_jpeg({300, 1}, Bytes(900));
  EXPECT_CONTAINS(error_of([&] { decode_image(span_of(jpeg), "a.jpg", {1000, 200}); }), "200 pixels a side");
  const Bytes strip(65000 * 3);
  std::string claimed = write_jpeg({65000, 1}, strip);
  const size_t frame = claimed.find("\xff\xc0");
  claimed[frame + 5] = static_cast<char>(0xfd);  // the height, of two bytes
  EXPECT_CONTAINS(error_of([&] { decode(claimed); }), "at most 100 megapixels");
}

TEST(Image, OtherFilesAreNamedForWhatTheyAre) {
  EXPECT_CONTAINS(error_of([] { decode(""); }), "empty");
  EXPECT_CONTAINS(error_of([] { decode("GIF89a..."); }), "a GIF; convert it");
  EXPECT_CONTAINS(error_of([] { decode("hello"); }), "neither JPEG nor PNG");
  EXPECT_CONTAINS(error_of([] { decode(std::string("RIFF0000WEBPVP8 ")); }), "a WebP");
  TemporaryFolder folder;
  write_text(folder / "photo.jpg", encode_png(six_colours().data(), 3, 2));  // by content, not by name
  EXPECT_EQ(read_image(folder / "photo.jpg").width, 3);
}

std::vector<std::string> files_below(const std::string& folder, const std::string& extension) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == extension) out.push_back(entry.path().string());
  return out;
}

TEST(ImageSuites, PngSuiteDecodesAndItsCorruptFilesAreErrors) {
  const std::string archive = shared_data() + "/data/malformed/pngsuite.tar.gz";
  if (!std::filesystem::exists(archive)) GTEST_SKIP() << "no reference data at " << archive << "; set ASR_TEST_DATA";
  TemporaryFolder folder;
  ASSERT_TRUE(unpack(archive, folder.path()));
  int good = 0, corrupt = 0;
  for (const auto& path : files_below(folder.path(), ".png")) {
    if (std::filesystem::path(path).filename().string()[0] == 'x') {
      EXPECT_CONTAINS(error_of([&] { read_image(path); }), path);
      ++corrupt;
      continue;
    }
    EXPECT_NO_THROW(read_image(path)) << path;
    ++good;
  }
  EXPECT_GT(good, 150);
  EXPECT_GE(corrupt, 14);
}

TEST(ImageSuites, JpegFilesDecodeAndBrokenOnesNeverCrash) {
  const std::string archive = shared_data() + "/data/malformed/jpeg.tar.gz";
  if (!std::filesystem::exists(archive)) GTEST_SKIP() << "no reference data at " << archive << "; set ASR_TEST_DATA";
  TemporaryFolder folder;
  ASSERT_TRUE(unpack(archive, folder.path()));
  int good = 0, errors = 0;
  for (const auto& path : files_below(folder.path(), ".jpg")) {
    const bool sound = path.find("/reftest/") != std::string::npos;
    try {
      EXPECT_FALSE(read_image(path).rgb.empty());
      good += sound;
    } catch (const Error& error) {
      EXPECT_FALSE(sound) << error.what();
      EXPECT_CONTAINS(error.what(), path);
      ++errors;
    }
  }
  EXPECT_GE(good, 7);
  EXPECT_GT(errors, 30);
}

}  // namespace
}  // namespace asr
