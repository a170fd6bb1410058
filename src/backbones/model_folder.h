// A Hugging Face model folder: config.json and what else is said about the model there.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/weights.h"

namespace asr {

struct ModelFolder {
  std::string path, config_path;
  nlohmann::json config;
  std::string type;  // model_type
  // Without a folder: weights are drawn at random, of this kind.
  std::optional<at::TensorOptions> random = std::nullopt;

  nlohmann::json text_config() const;  // older files have the text model's keys at the top
  bool tied_embeddings() const;
  // Tokens that end an answer, and what stands after it; from generation_config.json where there is one.
  std::vector<int64_t> end_tokens() const;
  int64_t padding_token() const;
};

ModelFolder read_model_folder(const std::string& path);
// No folder, but what its config.json would say.
ModelFolder random_model_folder(const nlohmann::json& config, const at::TensorOptions& kind);
// What a model of the folder takes its tensors from.
Weights weights_of(const ModelFolder& folder, const std::vector<std::pair<std::string, std::string>>& renames = {});

class Backbone;
std::unique_ptr<Backbone> make_backbone(const ModelFolder& folder);

}  // namespace asr
