#include "base/text.h"

#include <gtest/gtest.h>

namespace asr {
namespace {

TEST(Text, EditDistanceCountsTranspositionsAsOne) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("palne", "plane"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("same", "same"), 0);
}

TEST(Text, LinesAreBrokenAtSpaces) {
  EXPECT_EQ(broken("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(broken("/a/long/path x", 5), (std::vector<std::string>{"/a/long/path", "x"}));
  EXPECT_EQ(broken("", 5), std::vector<std::string>{""});
}

TEST(Text, NearestNameIsOfferedOnlyWhenNear) {
  EXPECT_EQ(did_you_mean("spectrl", {"spectrum", "memory"}), "; did you mean 'spectrum'?");
  EXPECT_EQ(did_you_mean("xyzzy", {"spectrum", "memory"}), "; known: spectrum, memory");
  EXPECT_EQ(did_you_mean("x", {}), "");
}

TEST(Text, JoinedPartsCanBeEmpty) {
  EXPECT_EQ(join({"", "a", "", ""}, ","), ",a,,");
  EXPECT_EQ(join({}, ","), "");
}

TEST(Text, NumbersParseWholeOrNotAtAll) {
  double real = 0;
  int64_t whole = 0;
  EXPECT_TRUE(parse_double("1e-3", real));
  EXPECT_EQ(real, 1e-3);
  for (const char* bad : {"", " 1", "1 ", "1x", "nan", "inf", "1e999", "--1", "0x10"})
    EXPECT_FALSE(parse_double(bad, real)) << bad;
  EXPECT_TRUE(parse_int("-42", whole));
  EXPECT_EQ(whole, -42);
  for (const char* bad : {"", "1.5", "99999999999999999999", "0x1", " 3"}) EXPECT_FALSE(parse_int(bad, whole)) << bad;
}

TEST(Text, DurationsAndSizesReadWell) {
  EXPECT_EQ(human_duration(8.4), "8s");
  EXPECT_EQ(human_duration(125), "2m 05s");
  EXPECT_EQ(human_duration(4320), "1h 12m");
  EXPECT_EQ(human_duration(1e300), "?");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(37700000), "37.7 MB");
}

TEST(Text, ControlCharactersNeverReachTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31m\n"), "a\\x1b[31m\\x0a");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("größer ±"), "größer ±");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J")
      << "U+009B opens a command as escape and bracket do";
  EXPECT_EQ(printable("a\xff\xe2\x80"), "a\\xff\\xe2\\x80") << "bytes that are not UTF-8";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "abc"),
            "\\xe2\\x80\\xaeabc")
      << "a mark that turns the text around";
}

}  // namespace
}  // namespace asr
