#include "io/word_tokenizer.h"

#include "tests/support/files.h"
#include "tests/support/tokenizer_files.h"

namespace asr {
namespace {

WordTokenizer sample() {
  return WordTokenizer::from_texts({"how many red circles? [12,34]", "Answer with a word."});
}

TEST(WordTokenizer, EveryAsciiTextComesBack) {
  const auto t = sample();
  for (const char* text : {"how many red circles?", "[12,34]", "[7,8]", "KNAB", "yellow|square|large",
                           "heart, triangle", "a.b.c", "C1", "x # y ## z", "how-many"})
    EXPECT_EQ(t.decode(ids_of(t.encode(text))), text);
}

TEST(WordTokenizer, KnownWordsAreOneTokenWithTheirPlace) {
  const auto t = sample();
  const auto tokens = t.encode("  red circles?");
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens[0].begin, 2u);
  EXPECT_EQ(tokens[0].end, 5u);
  EXPECT_EQ(tokens[2].begin, 13u);
  EXPECT_EQ(t.encode("zebra").size(), 5u);  // characters
}

TEST(WordTokenizer, SpecialPiecesCannotBeTyped) {
  const auto t = sample();
  for (const auto& token : t.encode("<end> <answer> <pad>")) EXPECT_GT(token.id, WordTokenizer::kUnknown);
  EXPECT_EQ(t.decode({WordTokenizer::kPadding, WordTokenizer::kEnd}), "");
}

TEST(WordTokenizer, BytesOutsideAsciiAreUnknownAndSafe) {
  const auto t = sample();
  const auto tokens = t.encode("caf\xc3\xa9");
  EXPECT_EQ(tokens.back().id, WordTokenizer::kUnknown);
  EXPECT_TRUE(t.encode("").empty());
  EXPECT_TRUE(t.encode(" \t\n").empty());
}

TEST(WordTokenizer, BadVocabularies) {
  EXPECT_CONTAINS(error_of([] { WordTokenizer::from_pieces({"a", "b"}, "file"); }), "does not begin with");
  EXPECT_CONTAINS(error_of([] {
                    WordTokenizer::from_pieces({"<pad>", "<end>", "<answer>", "<unknown>", "a", "a"}, "file");
                  }),
                  "stands twice");
  EXPECT_CONTAINS(error_of([] { sample().decode({100000}); }), "outside the vocabulary");
}

}  // namespace
}  // namespace asr
