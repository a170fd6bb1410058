// Headers of pictures, looked at without decoding; pipes in place of files; tables without bounds.
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "io/byte_source.h"
#include "io/image.h"
#include "io/png.h"
#include "io/record_file.h"
#include "tests/support/archive.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"

namespace asr {
namespace {

namespace fs = std::filesystem;

class Header : public testing::Test {
 protected:
  std::string problem(const std::string& bytes, const ImageLimits& limits = {}) {
    write_text(folder_ / "a.img", bytes);
    return image_header_problem(folder_ / "a.img", limits);
  }
  static std::string complaint(const std::function<void()>& call) {  // or ""
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string refusal_of(const std::string& name, const std::string& text) {
    write_text(folder_ / name, text);
    return complaint([&] { read_records(folder_ / name, [](const FileRecord&) {}); });
  }
  TemporaryFolder folder_;
};

TEST_F(Header, FormatAndSizeOfPictures) {
  const std::vector<uint8_t> pixels(60 * 40 * 3, 9);
  const auto png = encode_png(pixels.data(), 60, 40);
  EXPECT_EQ(problem(png), "");
  EXPECT_EQ(problem(png.substr(0, 40)), "");  // nothing is decoded
  EXPECT_EQ(problem(png.substr(0, 20)), "damaged PNG: no header; fetch the file again");
  EXPECT_CONTAINS(problem(png, {2399, 100}), "an image of 60x40 pixels is too large");
  EXPECT_CONTAINS(problem(png, {100000, 59}), "is too large");
  for (const bool progressive : {false, true}) {
    const auto jpeg = write_jpeg({60, 40, 3, progressive}, pixels);
    EXPECT_EQ(problem(jpeg), "");
    EXPECT_CONTAINS(problem(jpeg, {2399, 100}), "an image of 60x40 pixels is too large");
    EXPECT_CONTAINS(problem(jpeg.substr(0, 12)), "damaged JPEG: the file ends in its header");
    EXPECT_EQ(problem("\xff\xd8\xff\xff" + jpeg.substr(2)), "");  // fill bytes
  }
  EXPECT_CONTAINS(problem("\xff\xd8\xff\xda" + std::string(20, 'x')), "no frame header");
  EXPECT_CONTAINS(problem("\xff\xd8" + std::string(100000, 'x')), "no frame header in its first");
  EXPECT_EQ(problem(""), "the file is empty; JPEG or PNG expected");
  EXPECT_CONTAINS(problem("RIFF----WEBPVP8 "), "a WebP; convert it to JPEG or PNG");
  EXPECT_CONTAINS(image_header_problem(folder_ / "none.png"), "No such file");
  EXPECT_CONTAINS(image_header_problem(folder_.path()), "is not a regular file");
}

// What decodes has a good header.
TEST_F(Header, AgreesWithTheDecoders) {
  for (const std::string name : {"pngsuite", "jpeg"}) {
    const auto archive = shared_data() + "/data/malformed/" + name + ".tar.gz";
    if (!fs::exists(archive)) GTEST_SKIP() << "no reference data at " << archive << "; set ASR_TEST_DATA";
    ASSERT_TRUE(unpack(archive, folder_.path()));
  }
  int good = 0, seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file()) continue;
    const auto path = entry.path().string(), header = image_header_problem(path),
               all = complaint([&] { read_image(path); });
    ++seen;
    good += all.empty();
    if (all.empty()) {
      EXPECT_EQ(header, "") << path;
    }
  }
  EXPECT_GT(good, 100) << seen;
}

TEST_F(Header, APipeDoesNotBlock) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_CONTAINS(error_of([&] { ByteSource bytes(folder_ / "pipe"); }), "pipe: is not a regular file");
  EXPECT_CONTAINS(error_of([&] { ByteSource bytes("/dev/zero"); }), "/dev/zero: is not a regular file");
  EXPECT_CONTAINS(error_of([&] { ByteSource bytes(folder_.path()); }), "is a folder, not a file");
  EXPECT_EQ(image_header_problem(folder_ / "pipe"), "is not a regular file");
}

TEST_F(Header, TablesHaveBounds) {
  std::string wide = "c0", row = "1";
  for (int i = 1; i < 4096; ++i) {
    wide += cat(",c", i);
    row += ",1";
  }
  EXPECT_EQ(refusal_of("t.csv", wide + "\n" + row + "\n"), "");
  EXPECT_CONTAINS(refusal_of("t.csv", wide + ",more\n"), "t.csv:1: has more than 4096 columns");
  EXPECT_CONTAINS(refusal_of("t.csv", "a,b\n1,2\n" + std::string(1 << 20, ',')), "t.csv:3: has more than 4096 columns");
  EXPECT_CONTAINS(refusal_of("t.csv", "a,b\n1," + std::string((1 << 20) + 9, 'x') + "\n"),
                  "t.csv:2: field 2 is longer than 1048576 bytes");
  EXPECT_CONTAINS(refusal_of("t.csv", "a,b\n1,\"" + std::string((1 << 20) + 9, 'x') + "\n"),
                  "t.csv:2: field 2 is longer than 1048576 bytes; is a closing quote missing?");
  EXPECT_CONTAINS(refusal_of("t.json", "[{\"a\": 1},\n{\"b\": \"" + std::string((1 << 26) + 9, 'x') + "\"}]"),
                  "t.json:2: a record is longer than 67108864 bytes");
}

}  // namespace
}  // namespace asr
