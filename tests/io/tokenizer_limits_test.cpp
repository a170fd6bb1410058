// Tokenizer files made to take for ever: every one is refused in a line or done in a moment. The plain forms of the
// searches, which those files slowed down, are the references here.
#include <algorithm>
#include <random>

#include "base/error.h"
#include "io/tokenizers/added_tokens.h"
#include "io/tokenizers/bpe.h"
#include "tests/support/files.h"
#include "tests/support/tokenizer_files.h"

namespace asr {
namespace {

using nlohmann::json;

json word_pieces_up_to(const json& vocabulary, size_t longest_word) {
  return {{"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"vocab", vocabulary},
            {"max_input_chars_per_word", longest_word}}}};
}

json with_part(const char* part, const json& value) {
  json out = word_pieces_up_to({{"[UNK]", 0}, {"a", 1}, {"##a", 2}}, 100);
  out[part] = value;
  return out;
}

json steps_of(const json& step, size_t count, const char* list) {
  auto steps = json::array();
  for (size_t i = 0; i < count; ++i) steps.push_back(step);
  return {{"type", "Sequence"}, {list, steps}};
}

std::string encode_error(const json& file, const std::string& text) {
  return error_of([&] { tokenizer_from_json(file.dump(), "x.json")->encode(text); });
}

TEST(TokenizerLimits, StepsThatDoubleTheText) {
  const json doubling = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  EXPECT_CONTAINS(encode_error(with_part("normalizer", steps_of(doubling, 40, "normalizers")), "aaa"),
                  "x.json: its steps make more than 160 characters of a short text");
  json nested = doubling;
  for (int i = 0; i < 40; ++i) nested = {{"type", "Sequence"}, {"normalizers", {nested, doubling}}};
  EXPECT_CONTAINS(encode_error(with_part("normalizer", nested), "aaa"), "its steps make more than");
  const json long_content = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1 << 20, 'a')}};
  EXPECT_CONTAINS(encode_error(with_part("normalizer", long_content), std::string(100000, 'a')), "its steps make");
  const json prefix = {{"type", "Prepend"}, {"prepend", std::string(1 << 20, 'a')}};
  EXPECT_CONTAINS(encode_error(with_part("normalizer", prefix), "a"), "its steps make");
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}};
  EXPECT_CONTAINS(encode_error(with_part("pre_tokenizer", steps_of(bytes, 40, "pretokenizers")), "a"),
                  "its steps make");
  const auto decoder = tokenizer_from_json(with_part("decoder", steps_of(doubling, 40, "decoders")).dump(), "x.json");
  EXPECT_CONTAINS(error_of([&] { decoder->decode({1, 1}, false); }), "its steps make");
  // A few such steps are fine.
  const auto four = with_part("normalizer", steps_of(doubling, 4, "normalizers"));
  EXPECT_EQ(tokenizer_from_json(four.dump(), "x.json")->encode("a").size(), 16u);
}

TEST(TokenizerLimits, NumbersOfStepsAndLengthsOfPatterns) {
  const auto load_error = [](const json& file) {
    return error_of([&] { tokenizer_from_json(file.dump(), "x.json"); });
  };
  const json nfc = {{"type", "NFC"}};
  EXPECT_CONTAINS(load_error(with_part("normalizer", steps_of(nfc, 5000, "normalizers"))), "more than 100 steps");
  json tree = nfc;
  for (int i = 0; i < 12; ++i) tree = {{"type", "Sequence"}, {"normalizers", {tree, tree}}};
  EXPECT_CONTAINS(load_error(with_part("normalizer", tree)), "more than 100 steps");
  const std::string long_text(5000, 'a');
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", long_text}}}, {"content", "b"}};
  EXPECT_CONTAINS(load_error(with_part("normalizer", replace)), "a pattern of 5000 characters; at most 1024");
  EXPECT_CONTAINS(load_error(with_part("decoder", replace)), "a pattern of 5000 bytes; at most 1024");
  EXPECT_CONTAINS(load_error(with_part("added_tokens", {{{"id", 7}, {"content", long_text}, {"normalized", false}}})),
                  "has 5000 characters; at most 1024");
  EXPECT_CONTAINS(load_error(word_pieces_up_to({{"[UNK]", 0}}, 100000)), "max_input_chars_per_word is 100000");
  // "a b" with thousands of spaces could be cut at each of them.
  const std::string spaces(20000, ' ');
  EXPECT_CONTAINS(load_error({{"model", {{"type", "BPE"}, {"vocab", {{spaces, 0}}}, {"merges", {spaces}}}}}),
                  "could be cut at more than 256 spaces");
}

// Comparing every place with every token, or every length of a piece at every place, would take minutes here.
TEST(TokenizerLimits, ManyTokensAndLongWords) {
  auto tokens = json::array();
  const int count = kSanitized ? 20000 : 100000;
  for (int i = 0; i < count; ++i)
    tokens.push_back({{"id", 10 + i}, {"content", cat("<<", i, ">")}, {"normalized", false}, {"special", true}});
  const auto many = tokenizer_from_json(with_part("added_tokens", tokens).dump(), "x.json");
  const auto found = many->encode(std::string(static_cast<size_t>(count), '<') + "<<77>a");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1].id, 87);

  const std::string junk = "##" + std::string(4000, 'a') + "b";
  const auto long_words =
      tokenizer_from_json(word_pieces_up_to({{"[UNK]", 0}, {"a", 1}, {"##a", 2}, {junk, 3}}, 4096).dump(), "x.json");
  EXPECT_EQ(long_words->encode(std::string(4000, 'a')).size(), 4000u);
}

std::string random_text(std::mt19937& random, size_t longest) {
  std::string out;
  for (size_t n = random() % longest + 1; n > 0; --n) out += static_cast<char>('a' + random() % 3);
  return out;
}

TEST(TokenizerLimits, AddedTokensAgreeWithThePlainSearch) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    AddedTokens added;
    std::vector<std::string> contents;
    for (int i = 0; i < 6; ++i) {
      AddedToken token;
      token.id = i;
      token.content = random_text(random, 5);
      contents.push_back(token.content);
      added.add(token, decode_utf8(token.content), "x.json");
    }
    const auto text = random_text(random, 60);
    std::vector<std::pair<size_t, int64_t>> expected, found;
    for (size_t at = 0; at < text.size();) {
      size_t best = contents.size();
      for (size_t i = 0; i < contents.size(); ++i) {
        const bool here = text.compare(at, contents[i].size(), contents[i]) == 0;
        if (here && (best == contents.size() || contents[i].size() > contents[best].size())) best = i;
      }
      if (best < contents.size()) expected.emplace_back(at, static_cast<int64_t>(best));
      at += best < contents.size() ? contents[best].size() : 1;
    }
    for (const auto& part : added.split(decode_utf8(text)))
      if (part.token) found.emplace_back(part.begin, part.token->id);
    ASSERT_EQ(found, expected) << text;
  }
}

TEST(TokenizerLimits, WordPieceAgreesWithThePlainSearch) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    json vocabulary = {{"[UNK]", 0}};
    for (int64_t id = 1; id < 12; ++id) vocabulary[(random() % 2 ? "##" : "") + random_text(random, 4)] = id;
    const auto word = random_text(random, 12);
    std::vector<int64_t> expected;
    for (size_t at = 0; at < word.size();) {
      size_t length = word.size() - at;
      const auto piece = [&] { return (at ? "##" : "") + word.substr(at, length); };
      while (length > 0 && !vocabulary.contains(piece())) --length;
      if (length == 0) {
        expected = {0};
        break;
      }
      expected.push_back(vocabulary[piece()].get<int64_t>());
      at += length;
    }
    ASSERT_EQ(ids_of(tokenizer_from_json(word_pieces_up_to(vocabulary, 100).dump(), "x.json")->encode(word)), expected)
        << vocabulary << word;
  }
}

TEST(TokenizerLimits, MergesAgreeWithThePlainSearch) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::map<std::pair<int64_t, int64_t>, Merge> merges;
    for (int64_t id = 3; id < 20; ++id)
      merges[{random() % static_cast<size_t>(id), random() % static_cast<size_t>(id)}] = {id / 2, id};  // equal ranks
    const auto find = [&](const Symbol& a, const Symbol& b) {
      const auto at = merges.find({a.id, b.id});
      return at == merges.end() ? Merge{} : at->second;
    };
    std::vector<Symbol> symbols;
    for (size_t i = 0; i < 40; ++i) symbols.push_back({static_cast<int64_t>(random() % 3), i, i + 1});
    const auto found = merge_pairs(symbols, find);
    while (true) {  // the lowest rank, the leftmost of equals, one at a time
      size_t best = symbols.size();
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto rank = find(symbols[i], symbols[i + 1]).rank;
        if (rank >= 0 && (best == symbols.size() || rank < find(symbols[best], symbols[best + 1]).rank)) best = i;
      }
      if (best == symbols.size()) break;
      symbols[best].id = find(symbols[best], symbols[best + 1]).id;
      symbols[best].end = symbols[best + 1].end;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    ASSERT_EQ(found.size(), symbols.size());
    for (size_t i = 0; i < symbols.size(); ++i) ASSERT_EQ(found[i].id, symbols[i].id) << i;
  }
}

}  // namespace
}  // namespace asr
