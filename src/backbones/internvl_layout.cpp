#include "backbones/internvl_layout.h"

#include <map>

#include "base/error.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/text.h"
#include "nn/model_config.h"

namespace asr {
namespace {

using nlohmann::json;
using Renames = std::vector<std::pair<std::string, std::string>>;

const Renames kTransformers = {
    {"vision_tower.", "model.vision_tower."},
    {"multi_modal_projector.", "model.multi_modal_projector."},
    {"language_model.lm_head.", "lm_head."},
    {"language_model.model.", "model.language_model."},
};

const Renames kInternLm2 = {
    {"language_model.model.tok_embeddings", "model.language_model.embed_tokens"},
    {"language_model.output", "lm_head"},
    {"language_model.model.layers.*.attention.wqkv", "model.language_model.layers.*.self_attn.wqkv"},
    {"language_model.model.layers.*.attention.wo", "model.language_model.layers.*.self_attn.o_proj"},
    {"language_model.model.layers.*.feed_forward.w1", "model.language_model.layers.*.mlp.gate_proj"},
    {"language_model.model.layers.*.feed_forward.w2", "model.language_model.layers.*.mlp.down_proj"},
    {"language_model.model.layers.*.feed_forward.w3", "model.language_model.layers.*.mlp.up_proj"},
    {"language_model.model.layers.*.attention_norm", "model.language_model.layers.*.input_layernorm"},
    {"language_model.model.layers.*.ffn_norm", "model.language_model.layers.*.post_attention_layernorm"},
};

const Renames kChat = {
    {"vision_model.embeddings.class_embedding", "model.vision_tower.embeddings.cls_token"},
    {"vision_model.embeddings.patch_embedding", "model.vision_tower.embeddings.patch_embeddings.projection"},
    {"vision_model.embeddings.position_embedding", "model.vision_tower.embeddings.position_embeddings"},
    {"vision_model.encoder.layers.*.attn.proj", "model.vision_tower.encoder.layer.*.attention.projection_layer"},
    {"vision_model.encoder.layers.*.attn", "model.vision_tower.encoder.layer.*.attention"},
    {"vision_model.encoder.layers.*.ls1", "model.vision_tower.encoder.layer.*.lambda_1"},
    {"vision_model.encoder.layers.*.ls2", "model.vision_tower.encoder.layer.*.lambda_2"},
    {"vision_model.encoder.layers.*.norm1", "model.vision_tower.encoder.layer.*.layernorm_before"},
    {"vision_model.encoder.layers.*.norm2", "model.vision_tower.encoder.layer.*.layernorm_after"},
    {"vision_model.encoder.layers.*.mlp", "model.vision_tower.encoder.layer.*.mlp"},
    {"mlp1.0", "model.multi_modal_projector.layer_norm"},
    {"mlp1.1", "model.multi_modal_projector.linear_1"},
    {"mlp1.3", "model.multi_modal_projector.linear_2"},
    {"language_model.lm_head", "lm_head"},
    {"language_model.model.", "model.language_model."},
};

// What the authors' configuration of a tower leaves out means other values than in transformers'.
json translated_vision(const ModelConfig& vision, const json& given) {
  const auto type = vision.text("model_type", "intern_vit_6b");
  check(type == "intern_vit_6b", vision.name_of("model_type"), " is '", type,
        "', which is not supported; it must be intern_vit_6b");
  json out = given;
  const json otherwise = {{"hidden_size", 3200},     {"num_attention_heads", 25}, {"intermediate_size", 12800},
                          {"num_hidden_layers", 48}, {"image_size", 224},         {"patch_size", 14},
                          {"norm_type", "rms_norm"}};
  for (const auto& [key, value] : otherwise.items())
    if (!vision.find(key)) out[key] = value;
  out["attention_bias"] = vision.flag("qkv_bias", false);
  out["use_qk_norm"] = vision.flag("qk_normalization", true);
  out["use_mean_pooling"] = true;  // no norm after the last layer
  const double eps = vision.number("layer_norm_eps", 1e-6);
  check(!out["use_qk_norm"].get<bool>() || eps == 1e-6, vision.name_of("layer_norm_eps"), " is ", eps,
        ", which is not supported together with qk_normalization; it must be 1e-6");
  return out;
}

json translated_text(const ModelConfig& text, const json& given, const std::string& model) {
  json out = given;
  out["model_type"] = model == "Qwen2ForCausalLM" ? "qwen2" : "llama";
  if (model != "InternLM2ForCausalLM") return out;
  out["attention_bias"] = text.flag("bias", false);
  const auto positions = text.text("rope_pos_id_version", "default");
  check(positions == "default", text.name_of("rope_pos_id_version"), " is '", positions, "', which is not supported");
  return out;
}

// The class of the language model, one of those that are known.
std::string language_class(const ModelConfig& text) {
  static const std::map<std::string, std::string> types = {
      {"qwen2", "Qwen2ForCausalLM"}, {"llama", "LlamaForCausalLM"}, {"internlm2", "InternLM2ForCausalLM"}};
  const auto* classes = text.find("architectures");
  std::string out;
  if (classes && classes->is_array() && !classes->empty() && (*classes)[0].is_string())
    out = (*classes)[0].get<std::string>();
  else if (const auto known = types.find(text.text("model_type", "")); known != types.end())
    out = known->second;
  std::vector<std::string> names;
  for (const auto& [type, name] : types) names.push_back(name);
  for (const auto& name : names)
    if (name == out) return out;
  fail(text.name_of("architectures"), " names the language model '", printable(out),
       "', which is not supported; known: ", join(names, ", "));
}

void refuse_what_is_not_read(const ModelConfig& config) {
  for (const char* key : {"use_backbone_lora", "use_llm_lora"}) {
    const auto given = config.integers(key, {0});
    check(given == std::vector<int64_t>{0}, config.name_of(key),
          " is not 0: the checkpoint holds adapters beside its weights; merge them first (InternVL's "
          "tools/merge_lora.py)");
  }
  check(!config.flag("pad2square", false), config.name_of("pad2square"), " is true, which is not supported");
  const auto shuffle = config.text("ps_version", "v1");
  check(shuffle == "v1" || shuffle == "v2", config.name_of("ps_version"), " is '", shuffle, "'; known: v1, v2");
}

PromptTemplate chat_prompt() {
  PromptTemplate out;
  out.image = "<IMG_CONTEXT>";
  out.image_open = "<img>";
  out.image_close = "</img>";
  out.before = "<|im_start|>user\n";
  out.picture = "<IMG_CONTEXT>\n";
  out.after = "<|im_end|>\n<|im_start|>assistant\n";
  out.answer_after = "<|im_end|>";
  return out;
}

// The authors' templates begin with a system message, which the models have been trained with.
void add_template(const ModelConfig& config, PromptTemplate& prompt) {
  const auto name = config.text("template", "");
  // "You are a multimodal model of Shanghai AI Laboratory, named InternVL in English", in two versions.
  const std::string older =
      "你是由上海人工智能实验室联合商汤科技开发的书生多模态大模型，英文名叫InternVL, 是一个有用无害的人工智能助手。";
  const std::string newer =
      "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。";
  const bool lines = name == "internvl2_5";
  check(lines || name == "internlm2-chat" || name == "Hermes-2", config.name_of("template"), " is '", printable(name),
        "', which is not supported; known: internvl2_5, internlm2-chat, Hermes-2");
  const std::string end = lines ? "<|im_end|>\n" : "<|im_end|>";
  prompt.before = "<|im_start|>system\n" + (lines ? newer : older) + end + prompt.before;
  prompt.after = end + "<|im_start|>assistant\n";
}

// The token that the tokenizer puts before every text, though it is not part of it: LLaMA's and InternLM2's do.
std::string beginning(const ModelFolder& folder, bool otherwise) {
  const auto path = folder.path + "/tokenizer_config.json";
  std::string token = "<s>";
  if (path_exists(path)) {
    const auto settings = read_json_object(path);
    const ModelConfig config(settings, path);
    otherwise = config.flag("add_bos_token", otherwise);
    const auto* given = config.find("bos_token");
    if (given && given->is_object() && given->contains("content")) given = &(*given)["content"];
    if (given && given->is_string()) token = given->get<std::string>();
  }
  return otherwise ? token : "";
}

InternVlLayout chat_layout(const ModelFolder& folder) {
  const ModelConfig config(folder.config, folder.config_path);
  const auto vision = config.part("vision_config"), text = config.part("llm_config");
  refuse_what_is_not_read(config);
  const auto model = language_class(text);
  const bool internlm2 = model == "InternLM2ForCausalLM";

  InternVlLayout out;
  out.folder = folder;
  auto& c = out.folder.config;
  c["vision_config"] = translated_vision(vision, folder.config["vision_config"]);
  c["text_config"] = translated_text(text, folder.config["llm_config"], model);
  c["vision_feature_layer"] = config.integers("select_layer", {-1});
  c.erase("llm_config");
  const bool inner = text.flag("tie_word_embeddings", false), outer = config.flag("tie_word_embeddings", false);
  c["tie_word_embeddings"] = inner || outer;
  out.own_head = !inner;

  if (internlm2) out.renames = kInternLm2;
  out.renames.insert(out.renames.end(), kChat.begin(), kChat.end());
  out.renames.insert(out.renames.end(), kTransformers.begin(), kTransformers.end());  // for adapters
  out.packed = true;
  out.packed_text = internlm2;
  out.prompt = chat_prompt();
  add_template(config, out.prompt);
  out.prompt.beginning = beginning(folder, model != "Qwen2ForCausalLM");
  out.tile = config.count("force_image_size", 0);
  out.thumbnail = config.flag("use_thumbnail", false);
  out.transposed = config.text("ps_version", "v1") == "v1";
  out.image_token = internlm2 ? 92546 : 151667;
  out.end_token = "<|im_end|>";
  return out;
}

}  // namespace

void unpack_internvl(const InternVlLayout& layout, Weights& weights) {
  if (!layout.packed) return;
  struct PackedHeads {
    bool bias = false;
    int64_t groups = 1, query = 0, key = 0;  // rows of each in a group; values have as many as keys
  };
  const auto take_apart = [&](const std::string& place, const std::string& name, const PackedHeads& heads) {
    auto part = weights.below(place);
    for (const std::string end : {".weight", ".bias"})
      if (heads.bias || end == ".weight")
        part.unpack(name + end, heads.groups,
                    {{"q_proj" + end, heads.query}, {"k_proj" + end, heads.key}, {"v_proj" + end, heads.key}});
  };
  const ModelConfig config(layout.folder.config, layout.folder.config_path);
  const auto vision = config.part("vision_config"), text = config.part("text_config");
  const int64_t width = vision.count("hidden_size", 0), depth = vision.count("num_hidden_layers", 0);
  for (int64_t i = 0; i < depth; ++i)
    take_apart(cat("model.vision_tower.encoder.layer.", i, ".attention."), "qkv",
               {vision.flag("attention_bias", false), 1, width, width});
  if (!layout.packed_text) return;
  // Around every key-value head: the query heads that share it, its key, its value.
  const int64_t heads = text.count("num_attention_heads", 32), shared = text.count("num_key_value_heads", heads);
  const int64_t head = text.count("hidden_size", 4096) / heads, layers = text.count("num_hidden_layers", 32);
  for (int64_t i = 0; i < layers; ++i)
    take_apart(cat("model.language_model.layers.", i, ".self_attn."), "wqkv",
               {text.flag("attention_bias", false), shared, heads / shared * head, head});
}

InternVlLayout internvl_layout(const ModelFolder& folder) {
  if (folder.type == "internvl_chat") return chat_layout(folder);
  InternVlLayout out;
  out.folder = folder;
  out.renames = kTransformers;
  out.prompt = chat_prompt();
  const auto text = folder.text_config();
  out.prompt.beginning =
      beginning(folder, ModelConfig(text, folder.config_path).text("model_type", "qwen2") == "llama");
  out.image_token = ModelConfig(folder.config, folder.config_path).count("image_token_id", 151667);
  return out;
}

}  // namespace asr
