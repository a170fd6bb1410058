#include "backbones/model_folder.h"

#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"

namespace asr {

using nlohmann::json;

namespace {

// Where the ends of an answer are written down: the generation file alone where there is one.
json generation_config(const ModelFolder& folder) {
  const auto path = folder.path + "/generation_config.json";
  if (path_exists(path)) return read_json_object(path);
  auto out = folder.config;
  const auto text = folder.text_config();
  for (const char* key : {"eos_token_id", "pad_token_id"})
    if (!out.contains(key) && text.contains(key)) out[key] = text[key];
  return out;
}

}  // namespace

ModelFolder read_model_folder(const std::string& path) {
  ModelFolder out;
  out.path = path;
  out.config_path = path + "/config.json";
  check(path_exists(out.config_path), path, ": holds no config.json; give the folder of a Hugging Face model");
  out.config = read_json_object(out.config_path);
  check(out.config.contains("model_type") && out.config["model_type"].is_string(), out.config_path,
        ": says no model_type");
  out.type = out.config["model_type"].get<std::string>();
  return out;
}

ModelFolder random_model_folder(const json& config, const at::TensorOptions& kind) {
  ModelFolder out;
  out.config = config;
  out.config_path = "config.json";
  out.type = config.at("model_type").get<std::string>();
  out.random = kind;
  return out;
}

Weights weights_of(const ModelFolder& folder, const std::vector<std::pair<std::string, std::string>>& renames) {
  return folder.random ? Weights::random(*folder.random) : Weights(folder.path, renames);
}

json ModelFolder::text_config() const {
  for (const char* key : {"text_config", "llm_config"})
    if (config.contains(key)) {
      check(config[key].is_object(), config_path, ": '", key, "' is no object");
      return config[key];
    }
  return config;
}

bool ModelFolder::tied_embeddings() const {
  const auto text = text_config();
  for (const auto* place : {&config, &text})
    if (place->contains("tie_word_embeddings") && (*place)["tie_word_embeddings"].is_boolean())
      return (*place)["tie_word_embeddings"].get<bool>();
  return false;
}

std::vector<int64_t> ModelFolder::end_tokens() const {
  const auto from = generation_config(*this);
  std::vector<int64_t> out;
  if (!from.contains("eos_token_id") || from["eos_token_id"].is_null()) return out;
  const auto& value = from["eos_token_id"];
  for (const auto& id : value.is_array() ? value : json::array({value})) {
    check(id.is_number_integer(), path, ": eos_token_id is no token number");
    out.push_back(id.get<int64_t>());
  }
  return out;
}

int64_t ModelFolder::padding_token() const {
  const auto from = generation_config(*this);
  if (from.contains("pad_token_id") && from["pad_token_id"].is_number_integer())
    return from["pad_token_id"].get<int64_t>();
  const auto ends = end_tokens();
  return ends.empty() ? 0 : ends[0];
}

}  // namespace asr
