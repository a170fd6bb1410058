#include "io/unicode.h"

#include <gtest/gtest.h>

namespace asr {
namespace {

std::string as_nfc(const std::string& text) {
  return encode_utf8(nfc(decode_utf8(text)));
}
std::string as_nfd(const std::string& text) {
  return encode_utf8(nfd(decode_utf8(text)));
}

TEST(Unicode, WrongBytesBecomeReplacements) {
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a" + mark + "b");
  EXPECT_EQ(valid_utf8("\xc0\x80"), mark + mark);             // overlong
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(valid_utf8("\xf0\x9f\xa6"), mark);                // cut short: one mark for the good beginning
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), mark + mark + mark + mark);
  EXPECT_EQ(valid_utf8("\xf0\x9f\xa6\x99"), "\xf0\x9f\xa6\x99");
  const auto characters = decode_utf8("\xe2\x96x");
  ASSERT_EQ(characters.size(), 2u);
  EXPECT_EQ(characters[1].begin, 2u);
}

TEST(Unicode, Classes) {
  EXPECT_EQ(class_of('a'), CharacterClass::Letter);
  EXPECT_EQ(class_of('['), CharacterClass::Punctuation);
  EXPECT_EQ(class_of('$'), CharacterClass::Other);
  EXPECT_EQ(class_of(0xBD), CharacterClass::Number);    // one half
  EXPECT_EQ(class_of(0x4E2D), CharacterClass::Letter);  // Chinese
  EXPECT_EQ(class_of(0x301), CharacterClass::Accent);
  EXPECT_EQ(class_of(0x3000), CharacterClass::Space);
  EXPECT_EQ(class_of(0x200B), CharacterClass::Control);  // no space, whatever its name says
  EXPECT_EQ(class_of(0x10FFFF), CharacterClass::Other);
}

TEST(Unicode, Composition) {
  EXPECT_EQ(as_nfc("e\xcc\x81"), "\xc3\xa9");
  EXPECT_EQ(as_nfd("\xc3\xa9"), "e\xcc\x81");
  EXPECT_EQ(as_nfc("\xe2\x84\xab"), "\xc3\x85");                              // Angstrom sign to A with a ring
  EXPECT_EQ(as_nfc("\xe0\xa5\x98"), "\xe0\xa4\x95\xe0\xa4\xbc");              // excluded from composition
  EXPECT_EQ(as_nfc("a\xcc\x81\xcc\xa3"), "\xe1\xba\xa1\xcc\x81");             // marks are put in order first
  EXPECT_EQ(as_nfc("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"), "\xea\xb0\x81");  // Hangul, by rule
  EXPECT_EQ(as_nfd("\xea\xb0\x81"), "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8");
  const auto composed = nfc(decode_utf8("xe\xcc\x81y"));
  ASSERT_EQ(composed.size(), 3u);
  EXPECT_EQ(composed[1].begin, 1u);
  EXPECT_EQ(composed[1].end, 4u);
}

TEST(Unicode, LowerCase) {
  EXPECT_EQ(encode_utf8(lower_case(decode_utf8("\xc3\x84"
                                               "B\xce\xa3\xd0\x96"))),
            "\xc3\xa4"
            "b\xcf\x83\xd0\xb6");
  EXPECT_EQ(encode_utf8(lower_case(decode_utf8("\xc4\xb0"))), "i\xcc\x87");
  EXPECT_EQ(encode_utf8(lower_case(decode_utf8("\xc4\x80\xc4\x81"))), "\xc4\x81\xc4\x81");  // every second one
}

}  // namespace
}  // namespace asr
