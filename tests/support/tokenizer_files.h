// Small tokenizer files of every kind, made by hand, so that a bare clone tests them all.
#pragma once

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/tokenizer.h"

namespace asr {

inline std::vector<int64_t> ids_of(const std::vector<Token>& tokens) {
  std::vector<int64_t> out;
  for (const auto& token : tokens) out.push_back(token.id);
  return out;
}

// What the tokens cover, one string a token.
inline std::vector<std::string> covered(const std::string& text, const std::vector<Token>& tokens) {
  std::vector<std::string> out;
  for (const auto& token : tokens) out.push_back(text.substr(token.begin, token.end - token.begin));
  return out;
}

// Protobuf, written by hand.
inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string bytes_field(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string number_field(int field, uint64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(value);
}

struct TestPiece {
  std::string text;
  float score;
  int type;  // 1 normal, 2 unknown, 3 control, 4 user defined, 6 byte
};

inline std::string sentencepiece_bytes(const std::vector<TestPiece>& pieces, bool byte_fallback, int model_type = 2,
                                       bool remove_extra_spaces = false) {
  std::string out;
  for (const auto& piece : pieces) {
    std::string score(4, '\0');
    std::memcpy(score.data(), &piece.score, 4);
    out += bytes_field(1, bytes_field(1, piece.text) + varint(2 << 3 | 5) + score +
                              number_field(3, static_cast<uint64_t>(piece.type)));
  }
  out += bytes_field(2, number_field(3, static_cast<uint64_t>(model_type)) + number_field(35, byte_fallback));
  return out + bytes_field(3, bytes_field(1, "identity") + number_field(3, 1) + number_field(4, remove_extra_spaces));
}

inline std::unique_ptr<Tokenizer> from_sentencepiece(const std::string& bytes, const std::string& path = "test.model") {
  return tokenizer_from_sentencepiece({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path);
}

// <unk> <s> </s>, 256 bytes, then pieces whose scores fall in this order (LLaMA's layout).
inline std::vector<TestPiece> llama_pieces(const std::vector<std::string>& texts) {
  std::vector<TestPiece> out = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}};
  const char* const digits = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) out.push_back({std::string("<0x") + digits[b >> 4] + digits[b & 15] + ">", 0, 6});
  for (const auto& text : texts) out.push_back({text, -static_cast<float>(out.size()), 1});
  return out;
}

// GPT-2's alphabet: the character that stands for each byte.
inline std::string byte_letter(int byte) {
  int next = 256, code = -1;
  for (int b = 0; b <= byte; ++b) {
    const bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    code = shown ? b : next++;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// Byte-level BPE over 256 bytes (id = byte) and these merges (ids from 256 on), as Qwen2 has it.
inline nlohmann::json byte_level_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  using nlohmann::json;
  json vocab = json::object(), list = json::array();
  for (int b = 0; b < 256; ++b) vocab[byte_letter(b)] = b;
  for (const auto& [left, right] : merges) {
    vocab[left + right] = vocab.size();
    list.push_back({left, right});
  }
  const std::string pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {
      {"added_tokens", json::array()},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}}, bytes}}}},
      {"decoder", bytes},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

inline nlohmann::json added_token(int64_t id, const std::string& content, bool special = true) {
  return {{"id", id}, {"content", content}, {"special", special}, {"normalized", false}};
}

// BERT's, with ids in the order of `pieces`.
inline nlohmann::json word_piece_json(const std::vector<std::string>& pieces) {
  using nlohmann::json;
  json vocab = json::object();
  for (const auto& piece : pieces) vocab[piece] = vocab.size();
  return {{"added_tokens", {added_token(0, "[UNK]"), added_token(1, "[CLS]")}},
          {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", nullptr}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}}};
}

}  // namespace asr
