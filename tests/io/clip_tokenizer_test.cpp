// CLIP's way from text to tokens, by hand on a small vocabulary: spaces as one, lower case, words that end in a mark.
#include <gtest/gtest.h>

#include "tests/support/clip_tokenizer.h"
#include "tests/support/files.h"
#include "tests/support/tokenizer_files.h"

namespace asr {
namespace {

using ClipIds = std::vector<int64_t>;

constexpr int64_t kLast = 256;  // added to a byte that ends a word
constexpr int64_t kAt = 512, kCat = 513, kThe = 515, kS = 516, kMarks = 517, kBegin = 519, kEnd = 520;

TEST(ClipTokenizer, WordsEndInAMark) {
  const auto t = tokenizer_from_json(clip_tokenizer_json().dump(), "t.json");
  const auto ids = [&](const std::string& text) { return ids_of(t->encode(text)); };
  EXPECT_EQ(ids("cat"), ClipIds({kCat}));
  EXPECT_EQ(ids("at"), ClipIds({kAt}));
  EXPECT_EQ(ids("cats"), ClipIds({'c', 'a', 't', 's' + kLast}));  // its t ends no word
  EXPECT_EQ(ids("a"), ClipIds({'a' + kLast}));
  EXPECT_EQ(ids(""), ClipIds());
}

TEST(ClipTokenizer, SpacesAndCaseSayNothing) {
  const auto t = tokenizer_from_json(clip_tokenizer_json().dump(), "t.json");
  const auto plain = ids_of(t->encode("the cat"));
  EXPECT_EQ(plain, ClipIds({kThe, kCat}));
  for (const char* text : {" The  CAT ", "THE\t\r\n cat\n", "the\xc2\xa0\xe2\x80\x83 cat"})
    EXPECT_EQ(ids_of(t->encode(text)), plain) << text;
  const std::string text = " The  CAT ";
  EXPECT_EQ(covered(text, t->encode(text)), std::vector<std::string>({"The", "CAT"}));
}

TEST(ClipTokenizer, CutsWordsAsItsPattern) {
  const auto t = tokenizer_from_json(clip_tokenizer_json().dump(), "t.json");
  const auto ids = [&](const std::string& text) { return ids_of(t->encode(text)); };
  EXPECT_EQ(ids("cat's"), ClipIds({kCat, kS}));
  EXPECT_EQ(ids("12"), ClipIds({'1' + kLast, '2' + kLast}));  // a digit is a word, so no merge joins them
  EXPECT_EQ(ids("cat!!"), ClipIds({kCat, kMarks}));
  EXPECT_EQ(ids("!'s"), ClipIds({'!', '\'' + kLast, 's' + kLast}));  // marks run on; what is left is a letter
  EXPECT_EQ(ids("x1y"), ClipIds({'x' + kLast, '1' + kLast, 'y' + kLast}));
  EXPECT_EQ(ids("\xc3\x89"), ClipIds({0xC3, 0xA9 + kLast}));   // É in lower case
  EXPECT_EQ(ids("E\xcc\x81"), ClipIds({0xC3, 0xA9 + kLast}));  // composed first
  EXPECT_EQ(ids("a<|endoftext|>at"), ClipIds({'a' + kLast, kEnd, kAt}));
  EXPECT_EQ(ids("<|startoftext|> at"), ClipIds({kBegin, kAt}));
}

TEST(ClipTokenizer, ItsFilesAreItsTokenizerJson) {
  TemporaryFolder folder;
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : clip_merges()) merges += left + " " + right + "\n";
  write_text(folder / "vocab.json", clip_vocabulary().dump());
  write_text(folder / "merges.txt", merges);
  write_text(folder / "tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  const auto one = tokenizer_from_json(clip_tokenizer_json().dump(), "t.json"), pair = load_tokenizer(folder.path());
  // Later versions name the special tokens in the pattern too.
  const auto later = tokenizer_from_json(
      clip_tokenizer_json(
          R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)")
          .dump(),
      "t.json");
  for (const std::string text : {"The  CAT's hat!! 12", "", "<|startoftext|>the<|endoftext|>",
                                 "\xe4\xbd\xa0\xe5\xa5\xbd, na\xc3\xafve 3D", "!'s"}) {
    EXPECT_EQ(ids_of(one->encode(text)), ids_of(pair->encode(text))) << text;
    EXPECT_EQ(ids_of(one->encode(text)), ids_of(later->encode(text))) << text;
  }
  EXPECT_TRUE(pair->is_special(kEnd));
  EXPECT_EQ(pair->size(), clip_tokens());
}

TEST(ClipTokenizer, OtherPatternsAreRefused) {
  auto file = clip_tokenizer_json();
  file["normalizer"]["normalizers"][1]["pattern"]["Regex"] = "x+";
  EXPECT_CONTAINS(error_of([&] { tokenizer_from_json(file.dump(), "t.json"); }),
                  "another regular expression than \\s+ is not supported");
  EXPECT_CONTAINS(error_of([&] { tokenizer_from_json(clip_tokenizer_json("[a-z]+").dump(), "t.json"); }),
                  "the Split pattern '[a-z]+' is not supported; known are those of GPT-2, Qwen2, LLaMA 3 and CLIP");
}

}  // namespace
}  // namespace asr
