// CLIP's tokenizer on a small vocabulary: 256 bytes, the same at the end of a word, a few merges and the two tokens
// around a text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/small_tokenizer.h"

namespace asr {

inline const std::vector<std::pair<std::string, std::string>>& clip_merges() {
  static const std::vector<std::pair<std::string, std::string>> out = {
      {"a", "t</w>"}, {"c", "at</w>"}, {"t", "h"}, {"th", "e</w>"}, {"'", "s</w>"}, {"!", "!</w>"}, {"1", "2</w>"}};
  return out;
}

// Byte b has id b, and 256 + b at the end of a word; merges follow, then the two special tokens.
inline nlohmann::json clip_vocabulary() {
  nlohmann::json out = nlohmann::json::object();
  int64_t id = 0;
  for (const char* ending : {"", "</w>"})
    for (const auto& letter : byte_letters()) out[letter + ending] = id++;
  for (const auto& [left, right] : clip_merges()) out[left + right] = id++;
  for (const char* piece : {"<|startoftext|>", "<|endoftext|>"}) out[piece] = id++;
  return out;
}
inline int64_t clip_tokens() {
  return static_cast<int64_t>(clip_vocabulary().size());
}

// As the folders of openai have it; `pattern` is how words are cut.
inline nlohmann::json clip_tokenizer_json(
    const std::string& pattern = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)") {
  using nlohmann::json;
  const auto vocabulary = clip_vocabulary();
  json added = json::array(), merges = json::array();
  for (const char* piece : {"<|startoftext|>", "<|endoftext|>"})
    added.push_back({{"id", vocabulary[piece]}, {"content", piece}, {"normalized", true}, {"special", true}});
  for (const auto& [left, right] : clip_merges()) merges.push_back(left + " " + right);
  const json cut = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Removed"}, {"invert", true}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  const json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}};
  return {{"added_tokens", added},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, spaces, {{"type", "Lowercase"}}}}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {cut, bytes}}}},
          {"decoder", bytes},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<|endoftext|>"},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", "</w>"},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

}  // namespace asr
