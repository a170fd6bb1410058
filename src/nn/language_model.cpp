#include "nn/language_model.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace asr {

using nlohmann::json;

at::ScalarType compute_type(const torch::Tensor& weight) {
  return weight.is_cpu() && weight.element_size() < 4 ? at::kFloat : weight.scalar_type();
}

int64_t integer_or(const json& config, const char* key, int64_t otherwise, const std::string& path) {
  if (!config.contains(key) || config[key].is_null()) return otherwise;
  check(config[key].is_number_integer(), path, ": '", key, "' is no whole number");
  const auto value = config[key].get<int64_t>();
  check(value >= 0 && value < int64_t(1) << 40, path, ": '", key, "' is ", value, ", which cannot be");
  return value;
}

double real_or(const json& config, const char* key, double otherwise, const std::string& path) {
  if (!config.contains(key) || config[key].is_null()) return otherwise;
  check(config[key].is_number(), path, ": '", key, "' is no number");
  return config[key].get<double>();
}

bool truth_or(const json& config, const char* key, bool otherwise, const std::string& path) {
  if (!config.contains(key) || config[key].is_null()) return otherwise;
  check(config[key].is_boolean(), path, ": '", key, "' is neither true nor false");
  return config[key].get<bool>();
}

std::string text_or(const json& config, const char* key, const std::string& otherwise, const std::string& path) {
  if (!config.contains(key) || config[key].is_null()) return otherwise;
  check(config[key].is_string(), path, ": '", key, "' is no text");
  return config[key].get<std::string>();
}

namespace {

DecoderConfig decoder_config(const json& text, const std::string& path) {
  const bool qwen = text_or(text, "model_type", "llama", path).rfind("qwen2", 0) == 0;
  DecoderConfig c;
  c.layers = integer_or(text, "num_hidden_layers", 32, path);
  c.width = integer_or(text, "hidden_size", 4096, path);
  c.heads = integer_or(text, "num_attention_heads", 32, path);
  c.kv_heads = integer_or(text, "num_key_value_heads", qwen ? 32 : c.heads, path);
  c.mlp = integer_or(text, "intermediate_size", qwen ? 22016 : 11008, path);
  c.head_width = integer_or(text, "head_dim", 0, path);
  c.norm_eps = real_or(text, "rms_norm_eps", 1e-6, path);
  c.rotary = rotary_config(text, path);
  check(c.layers > 0 && c.width > 0 && c.mlp > 0 && c.heads > 0 && c.kv_heads > 0 && c.heads % c.kv_heads == 0, path,
        ": the language model's sizes cannot be (", c.layers, " layers, width ", c.width, ", ", c.heads, " heads, ",
        c.kv_heads, " key-value heads)");
  check(c.head_width > 0 || c.width % c.heads == 0, path, ": width ", c.width, " is no multiple of ", c.heads,
        " heads");
  check(text_or(text, "hidden_act", "silu", path) == "silu", path, ": hidden_act '",
        text_or(text, "hidden_act", "silu", path), "' of the language model is not supported; it must be silu");
  check(!truth_or(text, "use_sliding_window", false, path), path, ": use_sliding_window is not supported");
  return c;
}

}  // namespace

void LanguageModel::load(const json& text, const std::string& path, Weights body, Weights lm_head, bool tied) {
  const auto type = text_or(text, "model_type", "llama", path);
  check(type == "llama" || type == "qwen2" || type == "qwen2_5_vl_text" || type == "qwen2_5_vl", path,
        ": a language model of type '", type, "' is not supported; known: llama, qwen2, qwen2_5_vl");
  const bool qwen = type != "llama";
  const auto c = decoder_config(text, path);
  decoder.config = c;
  const int64_t vocabulary = integer_or(text, "vocab_size", qwen ? 151936 : 32000, path), head_width = c.head();
  embedding = body.take("embed_tokens.weight", {vocabulary, c.width});
  // Attention biases: Qwen2 always on q, k and v; LLaMA where the configuration says so, then on o too.
  const bool bias = qwen || truth_or(text, "attention_bias", false, path);
  const bool mlp_bias = !qwen && truth_or(text, "mlp_bias", false, path);
  decoder.layers.clear();
  for (int64_t i = 0; i < c.layers; ++i) {
    auto w = body.below(cat("layers.", i, "."));
    DecoderLayer l;
    l.attention_norm = w.rms_norm("input_layernorm", c.width, c.norm_eps);
    l.mlp_norm = w.rms_norm("post_attention_layernorm", c.width, c.norm_eps);
    l.q = w.linear("self_attn.q_proj", c.heads * head_width, c.width, bias);
    l.k = w.linear("self_attn.k_proj", c.kv_heads * head_width, c.width, bias);
    l.v = w.linear("self_attn.v_proj", c.kv_heads * head_width, c.width, bias);
    l.o = w.linear("self_attn.o_proj", c.width, c.heads * head_width, bias && !qwen);
    l.gate = w.linear("mlp.gate_proj", c.mlp, c.width, mlp_bias);
    l.up = w.linear("mlp.up_proj", c.mlp, c.width, mlp_bias);
    l.down = w.linear("mlp.down_proj", c.width, c.mlp, mlp_bias);
    decoder.layers.push_back(std::move(l));
  }
  decoder.final_norm = body.rms_norm("norm", c.width, c.norm_eps);
  tied_ = tied;
  if (tied && lm_head.has("weight")) lm_head.ignore("weight");  // a copy, saved by some versions
  head.weight = tied ? embedding : lm_head.take("weight", {vocabulary, c.width});
}

torch::Tensor LanguageModel::embed(const torch::Tensor& ids) const {
  return at::embedding(embedding, ids).to(compute_type(embedding));
}

torch::Tensor LanguageModel::logits(const torch::Tensor& hidden) const {
  return head(hidden, Pass{0, nullptr});
}

std::vector<AdapterSite> LanguageModel::sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    out.push_back({cat(prefix, "layers.", i, ".self_attn.q_proj"), &decoder.layers[i].q});
    out.push_back({cat(prefix, "layers.", i, ".self_attn.v_proj"), &decoder.layers[i].v});
  }
  return out;
}

std::vector<AdapterSite> LanguageModel::all_sites(const std::string& prefix) {
  std::vector<AdapterSite> out;
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    auto& l = decoder.layers[i];
    const std::pair<const char*, Linear*> parts[] = {
        {"self_attn.q_proj", &l.q}, {"self_attn.k_proj", &l.k},  {"self_attn.v_proj", &l.v},   {"self_attn.o_proj", &l.o},
        {"mlp.gate_proj", &l.gate}, {"mlp.up_proj", &l.up}, {"mlp.down_proj", &l.down}};
    for (const auto& [name, linear] : parts) out.push_back({cat(prefix, "layers.", i, ".", name), linear});
  }
  return out;
}

}  // namespace asr
