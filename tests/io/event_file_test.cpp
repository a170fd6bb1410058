#include "io/event_file.h"

#include <cstdio>
#include <numeric>

#include "tests/support/event_reader.h"
#include "tests/support/files.h"

namespace asr {
namespace {

// RFC 3720, B.4 (there byte by byte, the lowest first).
TEST(EventFile, ChecksumsOfTheRfc) {
  const auto of = [](const std::string& bytes) { return crc32c(bytes.data(), bytes.size()); };
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(of(rising), 0x46dd794eu);
  EXPECT_EQ(of(std::string(rising.rbegin(), rising.rend())), 0x113fdb5cu);
  const unsigned char read_command[48] = {0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                                          0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                                          0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0};
  EXPECT_EQ(crc32c(read_command, sizeof read_command), 0xd9963a56u);
  EXPECT_EQ(of("123456789"), 0xe3069283u);
  EXPECT_EQ(of(""), 0u);
}

TEST(EventFile, AnotherReaderFindsWhatWasWritten) {
  const auto file = event_file_start(1000.5) + event_record(2000.25, 300, {{"train/loss", 1.5}, {"score/a b", -0.25}}) +
                    event_record(3000, int64_t(1) << 40, {{std::string(300, 'x'), 1e30}});
  const auto events = read_events(file);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1000.5);
  EXPECT_EQ(events[1].wall_time, 2000.25);
  EXPECT_EQ(events[1].step, 300);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"train/loss", 1.5f}, {"score/a b", -0.25f}}));
  EXPECT_EQ(events[2].step, int64_t(1) << 40);
  EXPECT_EQ(events[2].scalars.at(std::string(300, 'x')), 1e30f);
}

TEST(EventFile, ProtocReadsIt) {
  if (std::system("protoc --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no protoc here";
  TemporaryFolder folder;
  write_text(folder / "event", read_records(event_record(1, 300, {{"train/loss", 1.0}})).at(0));
  const auto command = "protoc --decode_raw < '" + (folder / "event") + "' > '" + (folder / "text") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto text = read_text(folder / "text");
  EXPECT_CONTAINS(text, "2: 300\n");
  EXPECT_CONTAINS(text, "1: \"train/loss\"\n");
  EXPECT_CONTAINS(text, "2: 0x3f800000\n");
}

}  // namespace
}  // namespace asr
