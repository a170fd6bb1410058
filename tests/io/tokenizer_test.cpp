// Every kind of tokenizer on small files made here, with ids worked out by hand.
#include "io/tokenizer.h"

#include <cmath>
#include <functional>

#include "tests/support/files.h"
#include "tests/support/tokenizer_files.h"

namespace asr {
namespace {

using nlohmann::json;
using Ids = std::vector<int64_t>;
using Texts = std::vector<std::string>;

const std::string kMark = "\xe2\x96\x81";
constexpr int64_t kFirst = 259;  // the first piece after LLaMA's 3 + 256

std::unique_ptr<Tokenizer> small_llama() {
  // 259 _r, 260 ed, 261 _red, 262 .. single letters
  return from_sentencepiece(
      sentencepiece_bytes(llama_pieces({kMark + "r", "ed", kMark + "red", kMark, "r", "e", "d", "t"}), true));
}

TEST(SentencePiece, BestScoresMergeFirst) {
  const auto t = small_llama();
  EXPECT_EQ(ids_of(t->encode("red")), Ids({kFirst + 2}));
  EXPECT_EQ(ids_of(t->encode("tred")), Ids({kFirst + 3, kFirst + 7, kFirst + 4, kFirst + 1}));
  EXPECT_EQ(ids_of(t->encode(" red")), Ids({kFirst + 3, kFirst + 2}));  // the prefix, then the text's own space
  EXPECT_TRUE(t->encode("").empty());
  EXPECT_EQ(t->size(), kFirst + 8);
}

TEST(SentencePiece, LettersOutsideTheVocabularyAreBytes) {
  const auto t = small_llama();
  const auto tokens = t->encode("\xc3\xa9t");
  EXPECT_EQ(ids_of(tokens), Ids({kFirst + 3, 3 + 0xC3, 3 + 0xA9, kFirst + 7}));
  EXPECT_EQ(covered("\xc3\xa9t", tokens), Texts({"", "\xc3", "\xa9", "t"}));
  EXPECT_EQ(t->decode(ids_of(tokens)), "\xc3\xa9t");
  EXPECT_EQ(t->decode({3 + 0xC3, kFirst + 7}), "\xef\xbf\xbdt");  // half a letter
}

TEST(SentencePiece, WithoutBytesUnknownNeighboursShareOneToken) {
  const auto t = from_sentencepiece(sentencepiece_bytes({{"<unk>", 0, 2}, {kMark, -1, 1}, {"a", -2, 1}}, false));
  const auto tokens = t->encode("xyaz");
  EXPECT_EQ(ids_of(tokens), Ids({1, 0, 2, 0}));
  EXPECT_EQ(covered("xyaz", tokens), Texts({"", "xy", "a", "z"}));
}

TEST(SentencePiece, SpecialTokensInTheText) {
  const auto t = small_llama();
  EXPECT_EQ(ids_of(t->encode("<s>red</s>")), Ids({1, kFirst + 2, 2}));
  EXPECT_TRUE(t->is_special(1));
  EXPECT_EQ(t->decode({1, kFirst + 2, 2}), "<s> red</s>");
  EXPECT_EQ(t->decode({1, kFirst + 2, 2}, true), "red");
  EXPECT_EQ(t->id_of("</s>"), 2);
  EXPECT_FALSE(t->find("<image>"));
  EXPECT_CONTAINS(error_of([&] { t->id_of("<image>"); }), "no token '<image>'");
}

TEST(SentencePiece, UserPiecesAndExtraSpaces) {
  auto pieces = llama_pieces({kMark, "a", "b"});
  pieces.push_back({"ab!", 0, 4});
  const auto t = from_sentencepiece(sentencepiece_bytes(pieces, true, 2, true));
  EXPECT_EQ(ids_of(t->encode("  a  ab!b ")),
            Ids({kFirst, kFirst + 1, kFirst, kFirst + 3, kFirst + 2}));  // one prefix, whatever is cut out
}

// As InternLM2's folders do: <|im_end|> has the number of a piece that the vocabulary keeps free.
TEST(SentencePiece, AddedTokensTakeTheNumbersOfFreePieces) {
  auto pieces = llama_pieces({kMark, "a"});
  pieces.push_back({"[UNUSED_TOKEN_145]", 0, 4});
  pieces.push_back({"[UNUSED_TOKEN_146]", 0, 4});
  TemporaryFolder folder;
  write_text(folder / "tokenizer.model", sentencepiece_bytes(pieces, true));
  write_text(folder / "added_tokens.json", "{\"<|im_end|>\": 261, \"<img>\": 263}");
  const auto t = load_tokenizer(folder / ".");
  EXPECT_EQ(ids_of(t->encode("<|im_end|><img>")), Ids({kFirst + 2, kFirst + 4}));
  EXPECT_EQ(t->decode({kFirst + 2}), "<|im_end|>");
  EXPECT_EQ(ids_of(t->encode("[UNUSED_TOKEN_146]")).back(), kFirst + 3);  // still itself
  EXPECT_GT(t->encode("[UNUSED_TOKEN_145]").size(), 10u);                 // has lost its number
  write_text(folder / "added_tokens.json", "{\"<|im_end|>\": 260}");
  EXPECT_CONTAINS(error_of([&] { load_tokenizer(folder / "."); }), "has the id of 'a'");
}

TEST(SentencePiece, BadFiles) {
  const auto good = sentencepiece_bytes(llama_pieces({kMark, "a"}), true);
  const auto error = [](const std::string& bytes) { return error_of([&] { from_sentencepiece(bytes, "x.model"); }); };
  EXPECT_CONTAINS(error(""), "x.model: the file is empty");
  for (size_t size = 1; size < good.size(); size += 7) EXPECT_CONTAINS(error(good.substr(0, size)), "x.model: ");
  EXPECT_CONTAINS(error(varint(1 << 3 | 2) + varint(UINT64_MAX)), "cut short");
  EXPECT_CONTAINS(error(std::string(12, '\xff')), "64 bits");
  EXPECT_CONTAINS(error("{\"model\": 1}"), "not a SentencePiece model");
  EXPECT_CONTAINS(error(sentencepiece_bytes(llama_pieces({"a"}), true, 1)), "only BPE");
  EXPECT_CONTAINS(error(sentencepiece_bytes(llama_pieces({"a", "a"}), true)), "two ids");
  EXPECT_CONTAINS(error(sentencepiece_bytes({{"a", -1, 1}}, false)), "no unknown piece");
  EXPECT_CONTAINS(error(sentencepiece_bytes({{"<unk>", 0, 2}, {"a", -1, 1}}, true)), "256 bytes");
  EXPECT_CONTAINS(error(bytes_field(2, number_field(3, 2))), "no pieces");
  EXPECT_CONTAINS(error(sentencepiece_bytes(llama_pieces({"\xff"}), true)), "not UTF-8");
  EXPECT_CONTAINS(error(sentencepiece_bytes({{"<unk>", 0, 2}, {"a", INFINITY, 1}}, false)), "finite score");
}

TEST(ByteLevel, MergesWordsAndPlaces) {
  const auto g = byte_letter(' ');
  const auto t = tokenizer_from_json(byte_level_json({{"r", "e"}, {"re", "d"}, {g, "red"}}).dump(), "t.json");
  const std::string text = "red  red\n3\xc3\xa9";
  const auto tokens = t->encode(text);
  EXPECT_EQ(ids_of(tokens), Ids({257, ' ', 258, '\n', '3', 0xC3, 0xA9}));
  EXPECT_EQ(covered(text, tokens), Texts({"red", " ", " red", "\n", "3", "\xc3", "\xa9"}));
  EXPECT_EQ(t->decode(ids_of(tokens)), text);
  EXPECT_EQ(ids_of(t->encode("e\xcc\x81")), Ids({0xC3, 0xA9}));  // composed first
  EXPECT_EQ(t->encode("e\xcc\x81")[0].end, 3u);
  EXPECT_EQ(ids_of(t->encode("a\xff")), Ids({'a', 0xEF, 0xBF, 0xBD}));  // a replacement character, as Hugging Face
  EXPECT_EQ(t->decode({0xC3}), "\xef\xbf\xbd");
}

TEST(ByteLevel, SplitRulesKeepMergesApart) {
  const auto g = byte_letter(' '), n = byte_letter('\n');
  // Every pair that a wrong rule would join has a merge; ids tell what was joined.
  const auto t = tokenizer_from_json(
      byte_level_json({{"'", "S"}, {"3", "3"}, {"!", n}, {g, g}, {g, "!"}, {"S", "c"}, {g, n}, {n, g}}).dump(), "t");
  EXPECT_EQ(ids_of(t->encode("'Sc")), Ids({256, 'c'}));
  EXPECT_EQ(ids_of(t->encode("33")), Ids({'3', '3'}));
  EXPECT_EQ(ids_of(t->encode("!\n")), Ids({258}));
  EXPECT_EQ(ids_of(t->encode("  !")), Ids({' ', 260}));
  EXPECT_EQ(ids_of(t->encode("  ")), Ids({259}));
  EXPECT_EQ(ids_of(t->encode(" \n ")), Ids({262, ' '}));
}

TEST(ByteLevel, AddedTokensAndTheirFlags) {
  auto file = byte_level_json({{"a", "b"}});
  file["added_tokens"] = {added_token(300, "<x>"), added_token(301, "<x>y"), added_token(302, "<l>"),
                          added_token(303, "word", false)};
  file["added_tokens"][2]["lstrip"] = file["added_tokens"][2]["rstrip"] = true;
  file["added_tokens"][3]["single_word"] = true;
  const auto t = tokenizer_from_json(file.dump(), "t.json");
  EXPECT_EQ(ids_of(t->encode("ab<x>ab<x>yab")), Ids({256, 300, 256, 301, 256}));  // the longest
  EXPECT_EQ(ids_of(t->encode("a \n<l>  a")), Ids({'a', 302, 'a'}));
  EXPECT_EQ(ids_of(t->encode("word")), Ids({303}));
  EXPECT_EQ(t->encode("words").size(), 5u);
  EXPECT_EQ(t->size(), 304);
  EXPECT_EQ(t->decode({256, 300, 303}, true), "abword");
  EXPECT_EQ(t->decode({256, 300}), "ab<x>");
}

// vocab.json, merges.txt and tokenizer_config.json of a byte-level tokenizer.json.
void write_vocabulary_files(const std::string& folder, const json& file, const std::string& tokenizer_class) {
  std::filesystem::create_directories(folder);
  std::string merges = "#version: 0.2\n";
  for (const auto& pair : file["model"]["merges"])
    merges += pair[0].get<std::string>() + " " + pair[1].get<std::string>() + "\n";
  json added = json::object();
  for (const auto& token : file.value("added_tokens", json::array()))
    added[std::to_string(token["id"].get<int64_t>())] = token;
  write_text(folder + "/vocab.json", file["model"]["vocab"].dump());
  write_text(folder + "/merges.txt", merges);
  write_text(folder + "/tokenizer_config.json",
             json({{"tokenizer_class", tokenizer_class}, {"added_tokens_decoder", added}}).dump());
}

TEST(VocabularyFiles, AreTheirTokenizerJson) {
  const auto g = byte_letter(' '), n = byte_letter('\n');
  auto file = byte_level_json({{"r", "e"}, {"re", "d"}, {g, "red"}, {"'", "S"}, {"3", "3"}, {"!", n}, {g, g}, {n, g}});
  file["added_tokens"] = {added_token(300, "<img>"), added_token(301, "<IMG_CONTEXT>")};
  TemporaryFolder folder;
  write_vocabulary_files(folder / "qwen", file, "Qwen2Tokenizer");
  write_text(folder / "qwen/added_tokens.json", "{\"<img>\": 300, \"<extra>\": 302}");
  const auto one = tokenizer_from_json(file.dump(), "t.json"), pair = load_tokenizer(folder / "qwen");
  for (const std::string text : {"red  red\n3\xc3\xa9", "e\xcc\x81 'Sred 33", "!\n  \n red", "a\xff", "",
                                 "<img><IMG_CONTEXT>red</img>", " \n ", "\xe4\xbd\xa0\xe5\xa5\xbd, red's!"}) {
    const auto expected = one->encode(text), found = pair->encode(text);
    EXPECT_EQ(ids_of(expected), ids_of(found)) << text;
    EXPECT_EQ(covered(text, expected), covered(text, found)) << text;
    EXPECT_EQ(one->decode(ids_of(expected)), pair->decode(ids_of(found))) << text;
  }
  EXPECT_EQ(pair->id_of("<extra>"), 302);
  EXPECT_TRUE(pair->is_special(301));
  // GPT-2 keeps digits together and composes nothing.
  write_vocabulary_files(folder / "gpt2", file, "GPT2TokenizerFast");
  const auto gpt2 = load_tokenizer(folder / "gpt2");
  EXPECT_EQ(gpt2->encode("33").size(), 1u);
  EXPECT_EQ(ids_of(gpt2->encode("e\xcc\x81")), Ids({'e', 0xCC, 0x81}));
}

TEST(VocabularyFiles, BadOnesAreNamed) {
  TemporaryFolder folder;
  const auto file = byte_level_json({{"r", "e"}});
  const auto write = [&](const std::string& name, const std::string& text, const std::string& kind) {
    write_vocabulary_files(folder / "t", file, kind);
    if (!name.empty()) write_text(folder / ("t/" + name), text);
  };
  const auto error = [&](const std::string& name, const std::string& text, const std::string& kind = "Qwen2Tokenizer") {
    write(name, text, kind);
    return error_of([&] { load_tokenizer(folder / "t"); });
  };
  EXPECT_CONTAINS(error("", "", "BartTokenizer"), "tokenizer_class 'BartTokenizer' are not supported; known: Qwen2");
  EXPECT_CONTAINS(error("tokenizer_config.json", "{}"), "whose class tokenizer_config.json does not name");
  EXPECT_CONTAINS(error("tokenizer_config.json", "[]"), "not a JSON object");
  EXPECT_CONTAINS(error("merges.txt", "#version: 0.2\nr e\nred\n"), "merges.txt:3: 'red' is no pair");
  EXPECT_CONTAINS(error("merges.txt", "r  e"), "merges.txt:1: ");
  EXPECT_CONTAINS(error("merges.txt", "r q\n"), "needs 'rq', which the vocabulary lacks");
  EXPECT_CONTAINS(error("vocab.json", "[1]"), "vocab.json: the model has no vocabulary");
  EXPECT_CONTAINS(error("vocab.json", "{\"a\": 0"), "vocab.json:1:8: not valid JSON");
  EXPECT_CONTAINS(error("vocab.json", "{\"a\": \"b\"}"), "vocab.json: token 'a' has an id");
  write("merges.txt", "#version: 0.2\r\nr e\r\n\r\n", "Qwen2Tokenizer");  // lines as Windows ends them
  EXPECT_EQ(load_tokenizer(folder / "t")->encode("re").size(), 1u);
  std::filesystem::remove(folder / "t/merges.txt");
  EXPECT_CONTAINS(error_of([&] { load_tokenizer(folder / "t"); }), "nor vocab.json with merges.txt");
}

TEST(ByteLevel, Gpt2PatternInsideTheByteLevel) {
  auto file = byte_level_json({{"3", "3"}, {"'", "s"}, {"'", "S"}});
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  const auto t = tokenizer_from_json(file.dump(), "t.json");
  EXPECT_EQ(ids_of(t->encode("33")), Ids({' ', 256}));
  EXPECT_EQ(ids_of(t->encode("a's 'S")), Ids({' ', 'a', 257, ' ', '\'', 'S'}));  // only small letters are contractions
}

// The LLaMA of tokenizer.json files: merges in place of scores.
json llama_json() {
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
  json vocab = {{"<unk>", 0}, {kMark, 1}, {"a", 2}, {"b", 3}, {kMark + "a", 4}, {"<0xC3>", 5}, {"<0xA9>", 6}};
  return {{"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", kMark}}, replace}}}},
          {"pre_tokenizer", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"fuse_unk", true},
            {"vocab", vocab},
            {"merges", {kMark + " a"}}}}};
}

TEST(LlamaJson, PrefixBytesAndUnknown) {
  const auto t = tokenizer_from_json(llama_json().dump(), "t.json");
  const auto tokens = t->encode("a ab\xc3\xa9zz");
  EXPECT_EQ(ids_of(tokens), Ids({4, 4, 3, 5, 6, 0}));  // z: no bytes in this vocabulary
  EXPECT_EQ(covered("a ab\xc3\xa9zz", tokens), Texts({"a", " a", "b", "\xc3", "\xa9", "zz"}));
  EXPECT_EQ(t->decode({4, 4, 3, 5, 6}), "a ab\xc3\xa9");
}

TEST(LlamaJson, Metaspace) {
  auto file = llama_json();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "first"}};
  file["added_tokens"] = {added_token(10, "<i>")};
  const auto t = tokenizer_from_json(file.dump(), "t.json");
  EXPECT_EQ(ids_of(t->encode("a a")), Ids({4, 4}));
  EXPECT_EQ(ids_of(t->encode("a<i>a a")), Ids({4, 10, 2, 4}));  // no prefix after the first part
  file["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_EQ(ids_of(tokenizer_from_json(file.dump(), "t")->encode("a<i>a a")), Ids({4, 10, 4, 4}));
}

TEST(WordPieceJson, NormalisesAndTakesTheLongestPiece) {
  const auto t = tokenizer_from_json(
      word_piece_json({"[UNK]", "[CLS]", "un", "##aff", "##able", "cafe", ",", "\xe4\xb8\xad", "##a", "a"}).dump(),
      "t");
  const std::string text = "[CLS] UNaffable, CAF\xc3\x89\xe4\xb8\xad\xe4\xb8\xad xyz";
  const auto tokens = t->encode(text);
  EXPECT_EQ(ids_of(tokens), Ids({1, 2, 3, 4, 6, 5, 7, 7, 0}));
  EXPECT_EQ(covered(text, tokens),
            Texts({"[CLS]", "UN", "aff", "able", ",", "CAF\xc3\x89", "\xe4\xb8\xad", "\xe4\xb8\xad", "xyz"}));
  EXPECT_EQ(t->decode({2, 3, 4, 6, 5}), "unaffable, cafe");
  EXPECT_EQ(ids_of(t->encode(std::string(100, 'a'))).size(), 100u);
  EXPECT_EQ(ids_of(t->encode(std::string(101, 'a'))), Ids({0}));  // longer than any word may be
}

TEST(TokenizerJson, BadFiles) {
  const auto good = byte_level_json({{"a", "b"}});
  const auto error = [](const std::string& text) { return error_of([&] { tokenizer_from_json(text, "x.json"); }); };
  const auto changed = [&](const std::function<void(json&)>& change) {
    json file = good;
    change(file);
    return error(file.dump());
  };
  EXPECT_CONTAINS(error(""), "x.json: the file is empty");
  EXPECT_CONTAINS(error(good.dump().substr(0, 500)), "x.json:1:501: not valid JSON");
  EXPECT_CONTAINS(error("[]"), "x.json: not a JSON object");
  EXPECT_CONTAINS(error("{}"), "x.json: no model");
  EXPECT_CONTAINS(error(std::string(100000, '[')), "nested deeper than 500");
  EXPECT_CONTAINS(changed([](json& f) { f["model"].erase("vocab"); }), "no vocabulary");
  EXPECT_CONTAINS(changed([](json& f) { f["model"]["vocab"] = json::object(); }), "no vocabulary");
  EXPECT_CONTAINS(changed([](json& f) { f["model"]["vocab"]["a"] = "b"; }), "not a whole number");
  EXPECT_CONTAINS(changed([](json& f) { f["model"]["vocab"]["a"] = -3; }), "absurd id");
  EXPECT_CONTAINS(changed([](json& f) { f["model"]["vocab"]["a"] = 5; }), "share id 5");
  EXPECT_CONTAINS(changed([](json& f) { f["model"]["merges"] = {"ab"}; }), "merge 0 ('ab') is no pair");
  EXPECT_CONTAINS(changed([](json& f) {
                    f["model"]["merges"] = json::array({json::array({"a", "zz"})});
                  }),
                  "needs 'zz'");
  EXPECT_CONTAINS(changed([](json& f) {
                    f["model"]["merges"] = json::array({json::array({"b", "a"})});
                  }),
                  "needs 'ba'");
  EXPECT_CONTAINS(changed([](json& f) { f["model"]["merges"] = {7}; }), "x.json: ");
  EXPECT_CONTAINS(changed([](json& f) { f["model"]["type"] = "Unigram"; }), "'Unigram' is not supported");
  EXPECT_CONTAINS(changed([](json& f) { f["normalizer"]["type"] = "Nfc"; }), "did you mean 'NFC'");
  EXPECT_CONTAINS(changed([](json& f) { f["decoder"] = 3; }), "without a type");
  EXPECT_CONTAINS(changed([](json& f) {
                    f["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "x+"}}}};
                  }),
                  "pattern 'x+' is not supported");
  EXPECT_CONTAINS(changed([](json& f) { f["added_tokens"] = {added_token(97, "zzz")}; }), "has the id of 'a'");
  EXPECT_CONTAINS(changed([](json& f) { f["added_tokens"] = {{{"id", 400}}}; }), "x.json: ");
  EXPECT_CONTAINS(error_of([&] { tokenizer_from_json(good.dump(), "x.json")->decode({5000}); }), "5000");
}

TEST(Tokenizers, AMillionLettersAreNoTrap) {
  const std::string text(kSanitized ? 1 << 16 : 1 << 20, 'a');
  json file = byte_level_json({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}});
  EXPECT_EQ(tokenizer_from_json(file.dump(), "t")->encode(text).size(), text.size() / 8);
  const auto t = from_sentencepiece(sentencepiece_bytes(llama_pieces({"aa", "aaaa", kMark, "a"}), true));
  EXPECT_EQ(t->encode(text).size(), 1 + text.size() / 4);
  const auto words = tokenizer_from_json(word_piece_json({"[UNK]", "[CLS]", "a"}).dump(), "t");
  EXPECT_EQ(words->encode(text).size(), 1u);
}

TEST(Tokenizers, AnyBytesGiveTokensWithinTheText) {
  std::string text;
  for (uint32_t i = 0, state = 1; i < 4096; ++i)
    text += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const auto bytes = tokenizer_from_json(byte_level_json({{"a", "b"}}).dump(), "t");
  const auto words = tokenizer_from_json(word_piece_json({"[UNK]", "[CLS]", "a"}).dump(), "t");
  const auto pieces = small_llama();
  for (const Tokenizer* t : {bytes.get(), words.get(), pieces.get()}) {
    size_t last = 0;
    for (const auto& token : t->encode(text)) {
      EXPECT_LE(token.begin, token.end);
      EXPECT_LE(token.end, text.size());
      EXPECT_GE(token.end, last);
      last = token.end;
    }
  }
}

TEST(LoadTokenizer, FromAFolder) {
  const TemporaryFolder folder;
  EXPECT_CONTAINS(error_of([&] { load_tokenizer(folder / "none"); }), "no such folder");
  EXPECT_CONTAINS(error_of([&] { load_tokenizer(folder.path()); }), "neither tokenizer.json nor tokenizer.model");
  write_text(folder / "tokenizer.model", sentencepiece_bytes(llama_pieces({kMark, "a"}), true));
  write_text(folder / "added_tokens.json", R"({"<image>": 400})");
  write_text(folder / "tokenizer_config.json",
             R"({"added_tokens_decoder": {"401": {"content": "<pad>", "special": true, "normalized": false}}})");
  const auto model = load_tokenizer(folder.path());
  EXPECT_EQ(ids_of(model->encode("<image>a<pad>")), Ids({400, kFirst, kFirst + 1, 401}));
  EXPECT_TRUE(model->is_special(401));
  write_text(folder / "tokenizer.json", byte_level_json({}).dump());  // wins over tokenizer.model
  EXPECT_EQ(ids_of(load_tokenizer(folder.path())->encode("<image>a")), Ids({400, 'a'}));
  write_text(folder / "tokenizer_config.json", R"({"added_tokens_decoder": {"x": 3}})");
  EXPECT_CONTAINS(error_of([&] { load_tokenizer(folder.path()); }), "tokenizer_config.json");
  write_text(folder / "tokenizer_config.json", "{");
  EXPECT_CONTAINS(error_of([&] { load_tokenizer(folder.path()); }), "tokenizer_config.json:1:2: not valid JSON");
}

TEST(Lines, EscapesComeBack) {
  for (const char* text : {"", "a\nb", "\\", "\\n", "a\\\\n\n", "\t\r"}) {
    EXPECT_EQ(unescape_line(escape_line(text)), text);
    EXPECT_EQ(escape_line(text).find('\n'), std::string::npos);
  }
  EXPECT_EQ(unescape_line("a\\nb\\\\n\\t\\"), "a\nb\\n\\t\\");
}

}  // namespace
}  // namespace asr
