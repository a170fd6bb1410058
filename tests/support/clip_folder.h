// A small random CLIP model as a Hugging Face folder: config.json, weights, tokenizer and image processor.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

#include "tensor/tensor_io.h"
#include "tests/support/clip_tokenizer.h"
#include "tests/support/files.h"

namespace asr {

struct ClipFolder {
  int64_t picture_width = 16, text_width = 12, projection = 10, side = 12, longest = 9;
  nlohmann::json config;
  std::map<std::string, torch::Tensor> tensors;

  explicit ClipFolder(uint64_t seed) {
    auto random = at::detail::createCPUGenerator(seed);
    const auto tensor = [&](const std::string& name, std::vector<int64_t> shape, double deviation, double mean = 0) {
      tensors[name] = mean + deviation * torch::randn(shape, random);
    };
    const auto linear = [&](const std::string& name, int64_t out, int64_t in, bool bias) {
      tensor(name + ".weight", {out, in}, 1.5 / std::sqrt(static_cast<double>(in)));
      if (bias) tensor(name + ".bias", {out}, 0.2);
    };
    const auto norm = [&](const std::string& name, int64_t width) {
      tensor(name + ".weight", {width}, 0.2, 1);
      tensor(name + ".bias", {width}, 0.2);
    };
    const auto tower = [&](const std::string& prefix, int64_t width) {
      for (int i = 0; i < 2; ++i) {
        const auto at = prefix + "encoder.layers." + std::to_string(i) + ".";
        for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"})
          linear(at + "self_attn." + name, width, width, true);
        norm(at + "layer_norm1", width);
        norm(at + "layer_norm2", width);
        linear(at + "mlp.fc1", 2 * width, width, true);
        linear(at + "mlp.fc2", width, 2 * width, true);
      }
    };
    tensor("vision_model.embeddings.class_embedding", {picture_width}, 0.5);
    tensor("vision_model.embeddings.patch_embedding.weight", {picture_width, 3, 4, 4}, 0.15);
    tensor("vision_model.embeddings.position_embedding.weight", {10, picture_width}, 0.5);
    norm("vision_model.pre_layrnorm", picture_width);
    norm("vision_model.post_layernorm", picture_width);
    tower("vision_model.", picture_width);
    tensor("text_model.embeddings.token_embedding.weight", {clip_tokens(), text_width}, 0.5);
    tensor("text_model.embeddings.position_embedding.weight", {longest, text_width}, 0.5);
    norm("text_model.final_layer_norm", text_width);
    tower("text_model.", text_width);
    linear("visual_projection", projection, picture_width, false);
    linear("text_projection", projection, text_width, false);
    tensors["logit_scale"] = torch::full({}, 2.6);
    config = {{"model_type", "clip"},
              {"projection_dim", projection},
              {"text_config",
               {{"hidden_size", text_width},
                {"intermediate_size", 2 * text_width},
                {"num_attention_heads", 2},
                {"num_hidden_layers", 2},
                {"vocab_size", clip_tokens()},
                {"max_position_embeddings", longest},
                {"eos_token_id", clip_tokens() - 1}}},
              {"vision_config",
               {{"hidden_size", picture_width},
                {"intermediate_size", 2 * picture_width},
                {"num_attention_heads", 2},
                {"num_hidden_layers", 2},
                {"image_size", side},
                {"patch_size", 4}}}};
  }

  void write(const std::string& folder) const {
    std::filesystem::create_directories(folder);
    const NamedTensors list(tensors.begin(), tensors.end());
    save_tensors(folder + "/model.safetensors", list, {});
    write_text(folder + "/config.json", config.dump());
    write_text(folder + "/tokenizer.json", clip_tokenizer_json().dump());
    write_processor(folder, side);
  }
  static void write_processor(const std::string& folder, int64_t side) {
    const nlohmann::json processor = {{"image_processor_type", "CLIPImageProcessor"},
                                      {"size", {{"shortest_edge", side}}},
                                      {"crop_size", {{"height", side}, {"width", side}}}};
    write_text(folder + "/preprocessor_config.json", processor.dump());
  }
};

}  // namespace asr
