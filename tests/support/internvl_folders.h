// InternVL folders rewritten: from the layout of transformers into that of its authors (packed tensors, other names, a
// vocabulary in two files), and from Qwen2 to a LLaMA decoder, which the authors' layout has as InternLM2.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tensor/tensor_io.h"
#include "tests/support/files.h"

namespace asr {

using TensorsByName = std::map<std::string, torch::Tensor>;

inline TensorsByName read_tensors(const std::string& path) {
  const auto file = read_safetensors(path);
  TensorsByName out;
  for (const auto& view : file.tensors) out[view.name] = load_tensor(file, view.name).clone();
  return out;
}

inline void write_tensors(const std::string& path, const TensorsByName& tensors) {
  NamedTensors list(tensors.begin(), tensors.end());
  for (auto& [name, tensor] : list) tensor = tensor.contiguous();
  save_tensors(path, list, {{"format", "pt"}});
}

inline nlohmann::json read_config(const std::string& folder) {
  return nlohmann::json::parse(read_text(folder + "/config.json"));
}

// A LLaMA decoder with two query heads to a key-value head and its own output layer, in the folder of a Qwen2 one.
inline void give_llama_decoder(const std::string& folder, bool bias = false) {
  auto config = read_config(folder);
  auto& text = config["text_config"];
  text["model_type"] = "llama";
  text["num_key_value_heads"] = 2;
  text["attention_bias"] = bias;
  text["tie_word_embeddings"] = config["tie_word_embeddings"] = false;
  auto tensors = read_tensors(folder + "/model.safetensors");
  const auto generator = at::detail::createCPUGenerator(5);
  const auto random = [&](std::vector<int64_t> shape) { return at::randn(shape, generator, at::kFloat) * 0.2; };
  const int64_t width = text["hidden_size"].get<int64_t>(), head = width / text["num_attention_heads"].get<int64_t>();
  for (int64_t i = 0; i < text["num_hidden_layers"].get<int64_t>(); ++i) {
    const auto place = "language_model.model.layers." + std::to_string(i) + ".self_attn.";
    for (const auto& [name, rows] : std::map<std::string, int64_t>{
             {"q_proj", width}, {"k_proj", 2 * head}, {"v_proj", 2 * head}, {"o_proj", width}}) {
      tensors[place + name + ".weight"] = random({rows, width});
      tensors.erase(place + name + ".bias");
      if (bias) tensors[place + name + ".bias"] = random({rows});
    }
  }
  tensors["language_model.lm_head.weight"] = random({text["vocab_size"].get<int64_t>(), width});
  write_tensors(folder + "/model.safetensors", tensors);
  write_text(folder + "/config.json", config.dump(1));
}

// A tower as InternVL's largest have it: root-mean-square norms, and norms of queries and keys.
inline void give_large_tower(const std::string& folder) {
  auto config = read_config(folder);
  config["vision_config"]["norm_type"] = "rms_norm";
  config["vision_config"]["use_qk_norm"] = true;
  auto tensors = read_tensors(folder + "/model.safetensors");
  const int64_t width = config["vision_config"]["hidden_size"].get<int64_t>();
  for (int64_t i = 0; i < config["vision_config"]["num_hidden_layers"].get<int64_t>(); ++i) {
    const auto place = "vision_tower.encoder.layer." + std::to_string(i) + ".";
    tensors.erase(place + "layernorm_before.bias");
    tensors.erase(place + "layernorm_after.bias");
    tensors[place + "attention.q_norm.weight"] = at::linspace(0.5, 1.5, width);
    tensors[place + "attention.k_norm.weight"] = at::linspace(1.5, 0.7, width);
  }
  write_tensors(folder + "/model.safetensors", tensors);
  write_text(folder + "/config.json", config.dump(1));
}

inline std::string chat_name(std::string name, bool internlm2) {
  const auto replace = [&](const char* from, const char* to) { name = std::regex_replace(name, std::regex(from), to); };
  if (name.rfind("vision_tower.", 0) == 0) {
    replace("vision_tower", "vision_model");
    replace(R"(encoder\.layer\.)", "encoder.layers.");
    replace("cls_token", "class_embedding");
    replace("position_embeddings", "position_embedding");
    replace(R"(patch_embeddings\.projection)", "patch_embedding");
    replace("lambda_", "ls");
    replace("attention.projection_layer", "attn.proj");
    replace(R"(\.attention\.)", ".attn.");
    replace("layernorm_before", "norm1");
    replace("layernorm_after", "norm2");
  }
  replace(R"(multi_modal_projector\.layer_norm)", "mlp1.0");
  replace(R"(multi_modal_projector\.linear_1)", "mlp1.1");
  replace(R"(multi_modal_projector\.linear_2)", "mlp1.3");
  if (!internlm2 || name.rfind("language_model.", 0) != 0) return name;
  replace("embed_tokens", "tok_embeddings");
  replace("lm_head", "output");
  replace(R"(self_attn\.o_proj)", "attention.wo");
  replace("input_layernorm", "attention_norm");
  replace("post_attention_layernorm", "ffn_norm");
  replace(R"(mlp\.gate_proj)", "feed_forward.w1");
  replace(R"(mlp\.down_proj)", "feed_forward.w2");
  replace(R"(mlp\.up_proj)", "feed_forward.w3");
  return name;
}

// Queries, keys and values below one another: by kind in the tower, by key-value head in InternLM2.
inline TensorsByName chat_tensors(const TensorsByName& tensors, const nlohmann::json& config, bool internlm2) {
  TensorsByName out;
  const int64_t heads = config["text_config"]["num_key_value_heads"].get<int64_t>();
  for (const auto& [name, tensor] : tensors) {
    const bool tower = name.find("vision_tower.") == 0;
    const size_t q = name.find("q_proj");
    const bool other = name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos;
    if ((!tower && !internlm2) || (q == std::string::npos && !other)) {
      out[chat_name(name, internlm2)] = tensor;
      continue;
    }
    if (other) continue;
    std::vector<torch::Tensor> parts;
    for (const char* kind : {"q_proj", "k_proj", "v_proj"})
      parts.push_back(tensors.at(name.substr(0, q) + kind + name.substr(q + 6)));
    auto packed = name;
    if (tower) {
      packed.replace(q, 6, "qkv");
      out[chat_name(packed, internlm2)] = at::cat(parts, 0);
    } else {
      std::vector<torch::Tensor> rows;
      for (int64_t h = 0; h < heads; ++h)
        for (const auto& part : parts) rows.push_back(part.chunk(heads, 0)[static_cast<size_t>(h)]);
      packed.replace(packed.find("self_attn.q_proj"), 16, "attention.wqkv");
      out[chat_name(packed, internlm2)] = at::cat(rows, 0);
    }
  }
  return out;
}

inline nlohmann::json chat_config(const nlohmann::json& config, bool internlm2) {
  auto llm = config["text_config"], vision = config["vision_config"];
  llm["architectures"] = {internlm2 ? "InternLM2ForCausalLM" : "Qwen2ForCausalLM"};
  llm["model_type"] = internlm2 ? "internlm2" : "qwen2";
  if (internlm2) llm["bias"] = llm["attention_bias"];
  vision["model_type"] = "intern_vit_6b";
  vision["qkv_bias"] = vision["attention_bias"];
  vision["qk_normalization"] = vision["use_qk_norm"];
  vision["image_size"] = vision["image_size"][0];
  vision["patch_size"] = vision["patch_size"][0];
  for (const char* key : {"attention_bias", "use_qk_norm", "use_mean_pooling", "use_absolute_position_embeddings"})
    vision.erase(key);
  llm.erase("attention_bias");
  return {{"architectures", {"InternVLChatModel"}},
          {"model_type", "internvl_chat"},
          {"downsample_ratio", config["downsample_ratio"]},
          {"dynamic_image_size", true},
          {"force_image_size", vision["image_size"]},
          {"llm_config", llm},
          {"max_dynamic_patch", 4},
          {"min_dynamic_patch", 1},
          {"ps_version", "v2"},
          {"select_layer", config["vision_feature_layer"]},
          {"template", internlm2 ? "internlm2-chat" : "internvl2_5"},
          {"use_backbone_lora", 0},
          {"use_llm_lora", 0},
          {"use_thumbnail", true},
          {"vision_config", vision}};
}

// The folder `to` as OpenGVLab would publish the model of the folder `from`.
inline void write_chat_folder(const std::string& from, const std::string& to) {
  using nlohmann::json;
  std::filesystem::create_directories(to);
  const auto config = read_config(from);
  const bool internlm2 = config["text_config"]["model_type"].get<std::string>() == "llama";
  write_text(to + "/config.json", chat_config(config, internlm2).dump(1));
  write_tensors(to + "/model.safetensors", chat_tensors(read_tensors(from + "/model.safetensors"), config, internlm2));
  // As in the real folders: a processor that is not used, and no end of an answer.
  write_text(to + "/preprocessor_config.json",
             json({{"feature_extractor_type", "CLIPFeatureExtractor"}, {"size", 8}, {"crop_size", 8}}).dump());
  write_text(to + "/generation_config.json", "{\"_from_model_config\": true, \"pad_token_id\": 264}");
  const auto tokenizer = json::parse(read_text(from + "/tokenizer.json"));
  json added = json::object();
  for (const auto& token : tokenizer["added_tokens"]) added[std::to_string(token["id"].get<int64_t>())] = token;
  std::string merges = "#version: 0.2\n";
  for (const auto& pair : tokenizer["model"]["merges"])
    merges += pair[0].get<std::string>() + " " + pair[1].get<std::string>() + "\n";
  write_text(to + "/vocab.json", tokenizer["model"]["vocab"].dump());
  write_text(to + "/merges.txt", merges);
  write_text(to + "/tokenizer_config.json",
             json({{"tokenizer_class", "Qwen2Tokenizer"}, {"added_tokens_decoder", added}}).dump());
}

}  // namespace asr
