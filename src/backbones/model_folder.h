// A Hugging Face model folder: config.json and what else is said about the model there.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asr {

struct ModelFolder {
  std::string path, config_path;
  nlohmann::json config;
  std::string type;  // model_type

  nlohmann::json text_config() const;  // older files have the text model's keys at the top
  bool tied_embeddings() const;
  // Tokens that end an answer, and what stands after it; from generation_config.json where there is one.
  std::vector<int64_t> end_tokens() const;
  int64_t padding_token() const;
};

ModelFolder read_model_folder(const std::string& path);

// A JSON file that must hold an object.

}  // namespace asr
