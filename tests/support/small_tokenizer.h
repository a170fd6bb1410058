// A byte-level tokenizer for reference models that come without one: bytes, the family's special tokens, the image
// token where config.json wants it.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

// GPT-2's letters for bytes, as UTF-8.
inline std::vector<std::string> byte_letters() {
  std::vector<std::string> out;
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool shown = (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
    const int code = shown ? b : next++;
    if (code < 128)
      out.push_back(std::string(1, static_cast<char>(code)));
    else
      out.push_back({static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))});
  }
  return out;
}

inline void write_small_tokenizer(const std::string& folder, const nlohmann::json& config) {
  using nlohmann::json;
  const auto type = config["model_type"].get<std::string>();
  int64_t image = -1;
  for (const char* key : {"image_token_id", "image_token_index"})
    if (config.contains(key)) image = config[key].get<int64_t>();
  json vocabulary = json::object(), added = json::array();
  int64_t id = 0;
  for (const auto& letter : byte_letters()) vocabulary[letter] = id++;
  const auto add = [&](const std::string& text, int64_t number) {
    added.push_back({{"id", number},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  };
  for (const char* text : {"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<img>",
                           "</img>", "<|endoftext|>"})
    add(text, id++);
  add(type == "qwen2_5_vl" ? "<|image_pad|>" : type == "internvl" ? "<IMG_CONTEXT>" : "<image>", image);
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const json tokenizer = {{"version", "1.0"},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", bytes},
                          {"post_processor", nullptr},
                          {"decoder", bytes},
                          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
  std::ofstream(folder + "/tokenizer.json") << tokenizer.dump();
  if (type != "instructblip") return;
  json words = json::object();
  int64_t word = 0;
  for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) words[text] = word++;
  for (char c = 'a'; c <= 'z'; ++c) {
    words[std::string(1, c)] = word++;
    words[std::string("##") + c] = word++;
  }
  for (const char* text : {"what", "is", "the", "?", ":", "question", "short", "answer"}) words[text] = word++;
  const json qformer = {{"version", "1.0"},
                        {"added_tokens", json::array()},
                        {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
                        {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                        {"post_processor", nullptr},
                        {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                        {"model",
                         {{"type", "WordPiece"},
                          {"unk_token", "[UNK]"},
                          {"continuing_subword_prefix", "##"},
                          {"max_input_chars_per_word", 100},
                          {"vocab", words}}}};
  std::filesystem::create_directories(folder + "/qformer_tokenizer");
  std::ofstream(folder + "/qformer_tokenizer/tokenizer.json") << qformer.dump();
}

}  // namespace asr
